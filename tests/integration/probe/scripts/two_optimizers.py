"""Two optimizers step in each iteration, as a GAN's do; the larger one is the primary."""

import torch
from parts import Clock, Slow, model_and_loss
from torch.utils.data import DataLoader

model, loss_of = model_and_loss()
judge = torch.nn.Linear(1, 1)
of_judge = torch.optim.Adam(judge.parameters(), lr=0.001)
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
loader = DataLoader(Slow(2000, 0.004), batch_size=2, num_workers=2)
clock = Clock()
for step, (x, y) in enumerate(loader):
    of_judge.zero_grad()
    (judge(model(x).detach()).mean() - judge(y).mean()).backward()
    of_judge.step()
    optimizer.zero_grad()
    loss = loss_of(model(x), y) - judge(model(x)).mean()
    loss.backward()
    optimizer.step()
    clock.stepped(len(x), 0)
    print(step, loss.item())
