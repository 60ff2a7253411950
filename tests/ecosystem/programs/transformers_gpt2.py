"""transformers: a small GPT-2 is trained, saved and read again; it generates greedily, by sampling and in beams."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, get_linear_schedule_with_warmup

torch.manual_seed(0)
ids = torch.randint(3, 64, (4, 24))


def train(attention):
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=64,
        n_positions=48,
        n_embd=32,
        n_layer=2,
        n_head=4,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        attn_implementation=attention,
    )
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, 12)
    for step in range(8):
        loss = model(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        print(attention, step, loss.item(), norm.item(), schedule.get_last_lr()[0])
    return model.eval()


for attention in ("eager", "sdpa"):
    model = train(attention)

prompt, mask = ids[:2, :5], torch.tensor([[0, 1, 1, 1, 1], [1, 1, 1, 1, 1]])
print("greedy", model.generate(prompt, attention_mask=mask, max_new_tokens=12, do_sample=False).tolist())
torch.manual_seed(2)
print("sampled", model.generate(prompt, attention_mask=mask, max_new_tokens=12, do_sample=True, top_k=20).tolist())
torch.manual_seed(3)
settings = dict(do_sample=True, top_p=0.8, temperature=1.3, repetition_penalty=1.2, no_repeat_ngram_size=2)
print("nucleus", model.generate(prompt, attention_mask=mask, max_new_tokens=12, **settings).tolist())
print("beams", model.generate(prompt, attention_mask=mask, max_new_tokens=8, num_beams=3, do_sample=False).tolist())

model.save_pretrained("gpt2")
again = GPT2LMHeadModel.from_pretrained("gpt2").eval()
with torch.no_grad():
    print("read again", torch.equal(again(ids).logits, model(ids).logits), again.config.n_embd, again.num_parameters())
