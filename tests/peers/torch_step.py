#!/usr/bin/env python3
"""Times training steps of a GPT-2 in PyTorch: the peer that gpt_bench step measures itself against.

The model is the one nanoGPT trains (learned positions, pre-LayerNorm, GELU in its tanh form, tied classifier,
scaled_dot_product_attention), with fused AdamW and clipping, on random tokens. After two steps it writes a line of JSON: its
name, and the most memory that it has had. Reads lines from standard input: each asks for one more round and is
answered by the seconds of that round's steps as a JSON list. Needs torch.
"""
import argparse
import json
import math
import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.shrink(F.gelu(self.expand(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, layers, heads, width, context, vocabulary):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * layers) if "out" in name or "shrink" in name else 1))

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def main():
    parser = argparse.ArgumentParser()
    for name in ("layers", "heads", "width", "context", "vocabulary", "batch", "threads", "steps"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--bf16", action="store_true", help="products in bfloat16, by autocast")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model = Model(args.layers, args.heads, args.width, args.context, args.vocabulary)
    decay = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
                                  lr=1e-4, betas=(0.9, 0.95), fused=True)
    step_model = torch.compile(model) if args.compile else model
    tokens = torch.randint(args.vocabulary, (args.batch, args.context + 1))

    def step():
        start = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.bf16):
            loss = step_model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        return time.perf_counter() - start

    for _ in range(2):
        step()
    name = f"PyTorch {torch.__version__}{' bf16' * args.bf16}{' compiled' * args.compile}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"peer": name, "peak_bytes": peak}), flush=True)
    for _ in sys.stdin:
        print(json.dumps([step() for _ in range(args.steps)]), flush=True)


if __name__ == "__main__":
    main()
