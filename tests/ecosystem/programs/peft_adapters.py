"""peft: low-rank adapters, IA3 and prompts on a small GPT-2; merged, saved and loaded."""

import tempfile

import torch
from peft import IA3Config, LoraConfig, PeftModel, PromptTuningConfig, TaskType, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel


def base():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(config)


tokens = torch.arange(24).view(2, 12) % 32
configs = {
    "lora": LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn"], lora_dropout=0.1, task_type=TaskType.CAUSAL_LM),
    "dora": LoraConfig(
        r=2, target_modules=["c_attn", "c_fc"], use_dora=True, fan_in_fan_out=True, task_type="CAUSAL_LM"
    ),
    "ia3": IA3Config(target_modules=["c_attn", "c_fc"], feedforward_modules=["c_fc"], task_type="CAUSAL_LM"),
    "prompt": PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
}
for name, config in configs.items():
    model = get_peft_model(base(), config)
    print(name, *model.get_nb_trainable_parameters())
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    model.train()
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        print(name, loss.item())
    model.eval()
    with torch.no_grad():
        before = model(input_ids=tokens).logits
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            again = PeftModel.from_pretrained(base(), folder).eval()(input_ids=tokens).logits
        print(name, "loaded", torch.allclose(before, again, atol=1e-5))
        if name == "lora":
            print(name, "merged", torch.allclose(before, model.merge_and_unload()(input_ids=tokens).logits, atol=1e-4))
