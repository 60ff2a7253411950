"""REINFORCE with a baseline, and deep Q-learning with a replay memory and a target network, on a walk in a corridor."""

import random
from collections import deque

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F

random.seed(0)
torch.manual_seed(0)
LENGTH = 6


class Corridor:
    """Walk from the middle: the right end pays 1, the left one -1, and every step costs 0.05."""

    def reset(self):
        self.place, self.steps = LENGTH // 2, 0
        return self.observation()

    def observation(self):
        return F.one_hot(torch.tensor(self.place), LENGTH).float()

    def step(self, action):
        self.place += 1 if action == 1 else -1
        self.steps += 1
        done = self.place in (0, LENGTH - 1) or self.steps == 20
        reward = {0: -1.0, LENGTH - 1: 1.0}.get(self.place, -0.05)
        return self.observation(), reward, done


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.actor, self.critic = nn.Linear(LENGTH, 16), nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, observation):
        hidden = torch.tanh(self.body(observation))
        return Categorical(logits=self.actor(hidden)), self.critic(hidden).squeeze(-1)


environment, model = Corridor(), ActorCritic()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for episode in range(15):
    observation, done = environment.reset(), False
    chances, values, entropies, rewards = [], [], [], []
    while not done:
        policy, value = model(observation)
        action = policy.sample()
        observation, reward, done = environment.step(action.item())
        chances.append(policy.log_prob(action))
        entropies.append(policy.entropy())
        values.append(value)
        rewards.append(reward)
    returns, total = [], 0.0
    for reward in reversed(rewards):
        total = reward + 0.95 * total
        returns.insert(0, total)
    returns, values = torch.tensor(returns), torch.stack(values)
    advantage = returns - values.detach()
    loss = -(torch.stack(chances) * advantage).mean() + F.smooth_l1_loss(values, returns)
    loss = loss - 0.01 * torch.stack(entropies).mean()
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print("episode", episode, len(rewards), sum(rewards), loss.item(), norm.item())

network, target = (nn.Sequential(nn.Linear(LENGTH, 24), nn.ReLU(), nn.Linear(24, 2)) for _ in range(2))
target.load_state_dict(network.state_dict())
optimizer, memory, seen = torch.optim.RMSprop(network.parameters(), lr=5e-3), deque(maxlen=200), 0
for episode in range(12):
    observation, done, lost = environment.reset(), False, []
    while not done:
        if random.random() < max(0.1, 0.9**episode):
            action = random.randrange(2)
        else:
            with torch.no_grad():
                action = network(observation).argmax().item()
        following, reward, done = environment.step(action)
        memory.append((observation, action, reward, following, done))
        observation = following
        seen += 1
        if len(memory) >= 16:
            states, actions, rewards, after, ended = zip(*random.sample(memory, 16), strict=True)
            chosen = network(torch.stack(states)).gather(1, torch.tensor(actions)[:, None]).squeeze(1)
            with torch.no_grad():
                best = network(torch.stack(after)).argmax(1, keepdim=True)
                future = target(torch.stack(after)).gather(1, best).squeeze(1)
                wanted = torch.tensor(rewards) + 0.95 * future * ~torch.tensor(ended)
            loss = F.huber_loss(chosen, wanted)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(network.parameters(), 1.0)
            optimizer.step()
            lost.append(loss.item())
        if seen % 10 == 0:
            for ours, theirs in zip(target.parameters(), network.parameters(), strict=True):
                ours.data.lerp_(theirs.data, 0.5)
    print("q", episode, environment.steps, environment.place, sum(lost), len(lost))
with torch.no_grad():
    print("values", network(torch.eye(LENGTH)).tolist())
