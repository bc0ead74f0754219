"""Two optimizers: the discriminator steps twice for each step of the generator. The generator has more parameters."""

import torch
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(24, 8)), batch_size=4, shuffle=True)
    generator = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.Linear(32, 8))
    judge = torch.nn.Linear(8, 1)
    of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3)
    of_judge = torch.optim.Adam(judge.parameters(), lr=1e-3)
    for step, (real,) in enumerate(loader):
        for _ in range(2):
            of_judge.zero_grad()
            fake = generator(torch.randn(len(real), 4)).detach()
            wrong = judge(fake).sigmoid().mean() - judge(real).sigmoid().mean()
            wrong.backward()
            of_judge.step()
        of_generator.zero_grad()
        caught = -judge(generator(torch.randn(len(real), 4))).sigmoid().mean()
        caught.backward()
        of_generator.step()
        print(step, wrong.item(), caught.item())


if __name__ == "__main__":
    main()
