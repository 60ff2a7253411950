"""transformers: a small T5, an encoder and a decoder, is trained with Adafactor, and generates."""

import torch
from transformers import Adafactor, T5Config, T5ForConditionalGeneration

torch.manual_seed(0)
source, target = torch.randint(3, 50, (4, 12)), torch.randint(3, 50, (4, 7))
config = T5Config(
    vocab_size=50,
    d_model=32,
    d_kv=8,
    d_ff=48,
    num_layers=2,
    num_heads=4,
    decoder_start_token_id=0,
    pad_token_id=0,
    eos_token_id=1,
    dropout_rate=0.1,
)
torch.manual_seed(1)
model = T5ForConditionalGeneration(config)
optimizer = Adafactor(model.parameters(), scale_parameter=True, relative_step=True, warmup_init=True)
for step in range(8):
    loss = model(input_ids=source, labels=target).loss
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print("step", step, loss.item(), norm.item())
model.eval()
print("greedy", model.generate(source, max_new_tokens=8, do_sample=False).tolist())
torch.manual_seed(2)
print("sampled", model.generate(source, max_new_tokens=8, do_sample=True).tolist())
model.save_pretrained("t5")
again = T5ForConditionalGeneration.from_pretrained("t5").eval()
with torch.no_grad():
    print("read again", again(input_ids=source, labels=target).loss.item())
    print("shared", again.shared.weight is again.encoder.embed_tokens.weight)
