"""Reinforcement learning: six algorithms, some steps each; policies that are saved and loaded."""

import numpy as np
import torch
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.evaluation import evaluate_policy

torch.manual_seed(0)
torch.set_num_threads(1)


def weights(m):
    return float(sum(p.detach().double().abs().sum() for p in m.policy.parameters()))


def run(cls, env, steps, **kw):
    m = cls("MlpPolicy", env, seed=1, device="cpu", **kw)
    m.learn(steps)
    vals = {
        k: v
        for k, v in m.logger.name_to_value.items()
        if k.startswith("train/") and isinstance(v, (int, float, np.floating))
    }
    print(cls.__name__, f"{weights(m):.7g}", {k: f"{float(v):.6g}" for k, v in sorted(vals.items())})
    mean, std = evaluate_policy(m, m.get_env(), n_eval_episodes=3, warn=False)
    print(" reward", f"{mean:.6g}", f"{std:.6g}")
    m.save("model")
    back = cls.load("model", device="cpu")
    obs = m.get_env().reset()
    a, _ = back.predict(obs, deterministic=True)
    b, _ = m.predict(obs, deterministic=True)
    print(" loaded", np.array_equal(a, b), a.tolist())


run(PPO, "CartPole-v1", 64, n_steps=32, batch_size=16, n_epochs=2)
run(A2C, "CartPole-v1", 50)
run(DQN, "CartPole-v1", 120, learning_starts=100, batch_size=32)
run(SAC, "Pendulum-v1", 106, learning_starts=100, batch_size=32)
run(TD3, "Pendulum-v1", 106, learning_starts=100, batch_size=32)
run(DDPG, "Pendulum-v1", 106, learning_starts=100, batch_size=32)
