#!/usr/bin/env python3
"""Writes gpt2_tiny.h5: reference values of tiny GPT-2 models, for oracle_test.cpp.

Needs torch (2.x, CPU) and h5py; the tests themselves need neither. Run it to rebuild the file beside it:

    python3 make_oracle.py [--out gpt2_tiny.h5]

The model is a plain GPT-2 (Radford et al. 2019): learned positions, pre-LayerNorm with epsilon 1e-5, GELU in
its tanh form, classifier tied to the token embedding, optional biases. Everything is computed in float64; initial
weights and learning rates are rounded to float32 first, so that a float32 program starts from the very same
numbers. Every random number comes from the generators seeded below, so that the file comes out the same.

Contents: root attributes beta1, beta2, eps, weight_decay and clip, and for every MODEL the attributes
MODEL.layers, .heads, .width, .context, .vocabulary, .bias, .sequences and .steps; in the group MODEL, all arrays
flat, row-major, f32 or u32:
    weights/NAME        initial
    tokens, targets     (sequences, context): the first batch
    logits              (sequences, context, vocabulary)
    loss                (1): mean over all tokens
    gradients/NAME      of the mean loss
    batches             (steps, sequences, context + 1): the training batches, inputs and targets overlapping
    lr                  (steps): warm-up, then cosine
    losses, grad_norms  (steps): mean loss, and norm before clipping
    trained/NAME        weights after all steps
"""

import argparse
import math
import pathlib
from dataclasses import dataclass

import h5py
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass(frozen=True)
class Config:
    name: str
    layers: int
    heads: int
    width: int
    context: int
    vocabulary: int
    bias: bool
    seed: int


CONFIGS = [
    Config("bias", layers=2, heads=2, width=24, context=13, vocabulary=65, bias=True, seed=1),
    Config("plain", layers=2, heads=4, width=32, context=16, vocabulary=131, bias=False, seed=2),
    Config("small", layers=1, heads=1, width=8, context=7, vocabulary=5, bias=True, seed=3),
]

SEQUENCES = 3
STEPS = 10
WARMUP = 3
LR, MIN_LR = 1e-2, 1e-3
BETAS = (0.9, 0.95)
EPS = 1e-8
WEIGHT_DECAY = 0.1
CLIP = 1.0


class LayerNorm(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(-1, keepdim=True)
        y = (x - mean) / torch.sqrt(variance + 1e-5) * self.weight
        return y if self.bias is None else y + self.bias


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.heads
        self.c_attn = nn.Linear(c.width, 3 * c.width, bias=c.bias)
        self.c_proj = nn.Linear(c.width, c.width, bias=c.bias)

    def forward(self, x):
        B, T, C = x.shape
        split = lambda t: t.view(B, T, self.heads, C // self.heads).transpose(1, 2)  # (B, H, T, C/H)
        q, k, v = (split(t) for t in self.c_attn(x).split(C, dim=2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(C // self.heads)
        future = torch.ones(T, T, dtype=torch.bool).triu(1)
        probabilities = scores.masked_fill(future, -math.inf).softmax(-1)
        return self.c_proj((probabilities @ v).transpose(1, 2).reshape(B, T, C))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c_fc = nn.Linear(c.width, 4 * c.width, bias=c.bias)
        self.c_proj = nn.Linear(4 * c.width, c.width, bias=c.bias)

    def forward(self, x):
        h = self.c_fc(x)
        gelu = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        return self.c_proj(gelu)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln_1 = LayerNorm(c.width, c.bias)
        self.attn = Attention(c)
        self.ln_2 = LayerNorm(c.width, c.bias)
        self.mlp = Mlp(c)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.wte = nn.Embedding(c.vocabulary, c.width)
        self.wpe = nn.Embedding(c.context, c.width)
        self.h = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.ln_f = LayerNorm(c.width, c.bias)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T

    def loss(self, tokens, targets):
        return F.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())


def initialize(model, generator):
    """Wider than real initial weights, and no ones or zeros: each parameter must matter in every result."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            values = torch.randn(p.shape, generator=generator, dtype=torch.float64)
            scale = 1 / math.sqrt(p.shape[1]) if p.dim() == 2 and "w.e" not in name else 0.3
            center = 1.0 if "ln_" in name and name.endswith("weight") else 0.0
            p.copy_((center + scale * values).float())


def learning_rates():
    rates = []
    for step in range(STEPS):
        if step < WARMUP:
            rate = LR * (step + 1) / WARMUP
        else:
            progress = (step - WARMUP) / (STEPS - WARMUP)
            rate = MIN_LR + 0.5 * (1 + math.cos(math.pi * progress)) * (LR - MIN_LR)
        rates.append(float(np.float32(rate)))
    return rates


def tensors_of(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def write(group, name, values):
    values = np.asarray(values)
    kind = "<u4" if values.dtype.kind in "iu" else "<f4"
    group.create_dataset(name, data=values.astype(kind).ravel(), track_times=False)


def write_all(group, tensors):
    for name, tensor in tensors.items():
        write(group, name, tensor.numpy())


def build(c, file):
    generator = torch.Generator().manual_seed(c.seed)
    model = Gpt(c)
    initialize(model, generator)
    batches = torch.randint(c.vocabulary, (STEPS, SEQUENCES, c.context + 1), generator=generator)
    rates = learning_rates()

    group = file.create_group(c.name)
    settings = {key: getattr(c, key) for key in ("layers", "heads", "width", "context", "vocabulary", "bias")}
    for key, value in (settings | {"sequences": SEQUENCES, "steps": STEPS}).items():
        file.attrs[f"{c.name}.{key}"] = np.int64(value)
    write_all(group.create_group("weights"), tensors_of(model))

    tokens, targets = batches[0][:, :-1], batches[0][:, 1:]
    loss = model.loss(tokens, targets)
    loss.backward()
    write(group, "tokens", tokens)
    write(group, "targets", targets)
    write(group, "logits", model(tokens).detach())
    write(group, "loss", [loss.item()])
    write_all(group.create_group("gradients"), {n: p.grad.clone() for n, p in model.named_parameters()})

    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}],
        lr=rates[0], betas=BETAS, eps=EPS)
    losses, norms = [], []
    for batch, rate in zip(batches, rates):
        for parameters in optimizer.param_groups:
            parameters["lr"] = rate
        optimizer.zero_grad()
        loss = model.loss(batch[:, :-1], batch[:, 1:])
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
        losses.append(loss.item())
        optimizer.step()
    write(group, "batches", batches)
    write(group, "lr", rates)
    write(group, "losses", losses)
    write(group, "grad_norms", norms)
    write_all(group.create_group("trained"), tensors_of(model))
    print(f"{c.name}: losses {losses[0]:.3f} to {losses[-1]:.3f}, gradient norms {min(norms):.3f} to {max(norms):.3f}")


def main():
    parser = argparse.ArgumentParser(description="writes reference values of tiny GPT-2 models")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).with_name("gpt2_tiny.h5"))
    out = parser.parse_args().out
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    with h5py.File(out, "w", libver="earliest") as file:
        for key, value in (("beta1", BETAS[0]), ("beta2", BETAS[1]), ("eps", EPS), ("weight_decay", WEIGHT_DECAY),
                           ("clip", CLIP)):
            file.attrs[key] = np.float64(value)
        for config in CONFIGS:
            build(config, file)


if __name__ == "__main__":
    main()
