"""Sentence embeddings: a small BERT with pooling, trained with three losses, saved and loaded; a cross-encoder."""

import os

import torch
from sentence_transformers import SentenceTransformer, losses, util
from sentence_transformers.models import Dense, Normalize, Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizer

torch.manual_seed(0)
words = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "a",
    "man",
    "plays",
    "guitar",
    "dog",
    "runs",
    "the",
    "cat",
    "sleeps",
    "fast",
    "music",
]
os.makedirs("bert", exist_ok=True)
open("bert/vocab.txt", "w").write("\n".join(words))
BertTokenizer("bert/vocab.txt").save_pretrained("bert")
BertModel(
    BertConfig(
        vocab_size=16,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
).save_pretrained("bert")
tr = Transformer("bert", max_seq_length=12)
model = SentenceTransformer(modules=[tr, Pooling(16), Dense(16, 8), Normalize()], device="cpu")
texts = ["a man plays guitar", "the dog runs fast", "the cat sleeps", "a man plays music"]
e = model.encode(texts)
print(e.shape, e.sum())
t = model.encode(texts, convert_to_tensor=True)
print(
    util.cos_sim(t, t).sum().item(),
    model.similarity(t, t).shape,
    util.semantic_search(t[:1], t, top_k=2)[0][0]["corpus_id"],
)
opt = torch.optim.AdamW(model.parameters(), 1e-3)


def tok(s):
    return dict(model.preprocess(s))


for loss_fn, label in (
    (losses.CosineSimilarityLoss(model), torch.tensor([0.9, 0.1])),
    (losses.MultipleNegativesRankingLoss(model), None),
    (losses.TripletLoss(model), None),
):
    model.train()
    for step in range(2):
        feats = [tok(texts[:2]), tok(texts[2:])] + (
            [tok(texts[1:3])] if isinstance(loss_fn, losses.TripletLoss) else []
        )
        loss = loss_fn(feats, label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(type(loss_fn).__name__, step, loss.item())
model.save("saved")
again = SentenceTransformer("saved", device="cpu")
print(abs(again.encode(texts) - model.encode(texts)).max() < 1e-6)
print(util.paraphrase_mining(model, texts, show_progress_bar=False)[0][1:])
