#!/usr/bin/env python3
"""Times training steps of a GPT-2 in JAX: a peer that gpt_bench peers measures gpt_mpi against.

The model is the one that torch_step.py trains (learned positions, pre-LayerNorm, GELU in its tanh form, tied
classifier), with AdamW and clipping, on random tokens; the whole step is one compiled function that overwrites what it
updates. Reads lines from standard input: each asks for one more round and is answered by the seconds of that round's
steps as a JSON list. Needs jax.
"""
import argparse
import json
import math
import os
import sys
import time


def arguments():
    parser = argparse.ArgumentParser()
    for name in ("layers", "heads", "width", "context", "vocabulary", "batch", "threads", "steps"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--bf16", action="store_true", help="products in bfloat16, the rest in float32")
    return parser.parse_args()


ARGS = arguments()
# XLA runs as many threads as the process may use cores when it starts.
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:ARGS.threads])
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

PRODUCTS = jnp.bfloat16 if ARGS.bf16 else jnp.float32
RATE, BETA1, BETA2, EPSILON, DECAY, CLIP = 1e-4, 0.9, 0.95, 1e-8, 0.1, 1.0


def initial_parameters(key):
    width = ARGS.width
    shapes = {"tokens": (ARGS.vocabulary, width), "positions": (ARGS.context, width)}
    block = {"qkv": (width, 3 * width), "out": (width, width)}
    block |= {"expand": (width, 4 * width), "shrink": (4 * width, width)}
    shapes |= {f"{layer}.{name}": shape for layer in range(ARGS.layers) for name, shape in block.items()}
    parameters = {}
    for number, (name, shape) in enumerate(shapes.items()):
        std = 0.02 / (math.sqrt(2 * ARGS.layers) if name.endswith((".out", ".shrink")) else 1)
        parameters[name] = std * jax.random.normal(jax.random.fold_in(key, number), shape)
        if "." in name:
            parameters[name + ".bias"] = jnp.zeros(shape[1])
    for norm in ("norm", *(f"{layer}.norm{i}" for layer in range(ARGS.layers) for i in (1, 2))):
        parameters[norm] = jnp.ones(width)
        parameters[norm + ".bias"] = jnp.zeros(width)
    return parameters


def normalized(p, name, x):
    x = x.astype(jnp.float32)
    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * p[name] + p[name + ".bias"]


def linear(p, name, x):
    return x.astype(PRODUCTS) @ p[name].astype(PRODUCTS) + p[name + ".bias"].astype(PRODUCTS)


def attention(qkv):
    b, t, _ = qkv.shape
    q, k, v = (part.reshape(b, t, ARGS.heads, -1).transpose(0, 2, 1, 3) for part in jnp.split(qkv, 3, axis=-1))
    scores = (q @ k.swapaxes(-1, -2)).astype(jnp.float32) / math.sqrt(q.shape[-1])
    scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf)
    return (jax.nn.softmax(scores).astype(PRODUCTS) @ v).transpose(0, 2, 1, 3).reshape(b, t, -1)


def loss(p, tokens, targets):
    x = p["tokens"][tokens] + p["positions"]
    for layer in range(ARGS.layers):
        x = x + linear(p, f"{layer}.out", attention(linear(p, f"{layer}.qkv", normalized(p, f"{layer}.norm1", x))))
        hidden = linear(p, f"{layer}.expand", normalized(p, f"{layer}.norm2", x))
        x = x + linear(p, f"{layer}.shrink", jax.nn.gelu(hidden, approximate=True))
    logits = (normalized(p, "norm", x).astype(PRODUCTS) @ p["tokens"].astype(PRODUCTS).T).astype(jnp.float32)
    of_targets = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return (jax.nn.logsumexp(logits, axis=-1) - of_targets).mean()


def train(state, tokens):
    """One step of AdamW (Loshchilov and Hutter 2019); biases and norms do not decay."""
    p, m, v, step = state
    value, gradients = jax.value_and_grad(loss)(p, tokens[:, :-1], tokens[:, 1:])
    norm = jnp.sqrt(sum((g**2).sum() for g in gradients.values()))
    scale = jnp.minimum(1.0, CLIP / (norm + 1e-6))
    step = step + 1
    moved = {}
    for name, g in gradients.items():
        g = g * scale
        m[name] = BETA1 * m[name] + (1 - BETA1) * g
        v[name] = BETA2 * v[name] + (1 - BETA2) * g * g
        update = (m[name] / (1 - BETA1**step)) / (jnp.sqrt(v[name] / (1 - BETA2**step)) + EPSILON)
        decay = DECAY if p[name].ndim > 1 else 0.0
        moved[name] = p[name] - RATE * (update + decay * p[name])
    return (moved, m, v, step), value


def main():
    parameters = initial_parameters(jax.random.key(1))
    zeros = [jax.tree.map(jnp.zeros_like, parameters) for _ in range(2)]
    state = (parameters, *zeros, jnp.zeros((), jnp.float32))
    tokens = jax.random.randint(jax.random.key(2), (ARGS.batch, ARGS.context + 1), 0, ARGS.vocabulary)
    compiled = jax.jit(train, donate_argnums=0)

    def step():
        nonlocal state
        start = time.perf_counter()
        state, value = compiled(state, tokens)
        value.item()
        jax.block_until_ready(state)
        return time.perf_counter() - start

    for _ in range(2):
        step()
    print(json.dumps({"peer": f"JAX {jax.__version__}{' bf16' * ARGS.bf16}"}), flush=True)
    for _ in sys.stdin:
        print(json.dumps([step() for _ in range(ARGS.steps)]), flush=True)


if __name__ == "__main__":
    main()
