"""diffusers: a small U-Net that learns to remove noise, samplers, an autoencoder."""

import torch
from diffusers import AutoencoderKL, DDIMScheduler, DDPMPipeline, DDPMScheduler, EulerDiscreteScheduler, UNet2DModel
from diffusers.training_utils import EMAModel

torch.manual_seed(0)
unet = UNet2DModel(
    sample_size=8,
    in_channels=1,
    out_channels=1,
    layers_per_block=1,
    block_out_channels=(8, 16),
    norm_num_groups=4,
    attention_head_dim=4,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)
noise_schedule = DDPMScheduler(num_train_timesteps=20)
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-3)
average = EMAModel(unet.parameters(), decay=0.9)
images = torch.rand(4, 1, 8, 8) * 2 - 1
for _ in range(4):
    noise, steps = torch.randn_like(images), torch.randint(0, 20, (4,))
    predicted = unet(noise_schedule.add_noise(images, noise, steps), steps).sample
    loss = torch.nn.functional.mse_loss(predicted, noise)
    optimizer.zero_grad()
    loss.backward()
    print("step", loss.item(), torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0).item())
    optimizer.step()
    average.step(unet.parameters())
unet.eval()
pipeline = DDPMPipeline(unet=unet, scheduler=noise_schedule)
pipeline.set_progress_bar_config(disable=True)
made = pipeline(batch_size=1, num_inference_steps=4, generator=torch.manual_seed(3), output_type="np").images
print("pipeline", float(made.mean()), float(made.std()))
for kind in (DDIMScheduler, EulerDiscreteScheduler):
    schedule = kind(num_train_timesteps=20)
    schedule.set_timesteps(3)
    sample = torch.randn(1, 1, 8, 8, generator=torch.manual_seed(4)) * schedule.init_noise_sigma
    with torch.no_grad():
        for step in schedule.timesteps:
            sample = schedule.step(
                unet(schedule.scale_model_input(sample, step), step).sample, step, sample
            ).prev_sample
    print(kind.__name__, sample.double().abs().mean().item(), sample.double().std().item())
torch.manual_seed(5)
coder = AutoencoderKL(
    in_channels=1, out_channels=1, block_out_channels=(8,), norm_num_groups=4, latent_channels=2, layers_per_block=1
)
distribution = coder.encode(images).latent_dist
loss = (coder.decode(distribution.sample()).sample - images).pow(2).mean() + 1e-3 * distribution.kl().mean()
loss.backward()
print("autoencoder", loss.item(), coder.encoder.conv_in.weight.grad.norm().item())
