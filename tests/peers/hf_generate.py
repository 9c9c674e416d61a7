#!/usr/bin/env python3
"""Times generation with Hugging Face transformers: the peer that gpt_bench generate measures itself against.

GPT2LMHeadModel with random weights generates greedily, with its key/value cache, behind a random prompt. Reads lines
from standard input: each asks for one more generation and is answered by its seconds as a JSON list. Needs torch and
transformers.
"""
import argparse
import json
import sys
import time

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel


def main():
    parser = argparse.ArgumentParser()
    for name in ("layers", "heads", "width", "context", "vocabulary", "sequences", "prompt", "tokens", "threads"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--bf16", action="store_true", help="weights and activations in bfloat16")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    transformers.logging.set_verbosity_error()
    config = GPT2Config(
        vocab_size=args.vocabulary, n_positions=args.context, n_embd=args.width, n_layer=args.layers,
        n_head=args.heads, bos_token_id=None, eos_token_id=None,
    )
    model = GPT2LMHeadModel(config).eval()
    if args.bf16:
        model = model.to(torch.bfloat16)
    prompt = torch.randint(args.vocabulary, (args.sequences, args.prompt))

    def generate():
        start = time.perf_counter()
        with torch.inference_mode():
            out = model.generate(
                prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=args.tokens,
                min_new_tokens=args.tokens, do_sample=False, use_cache=True, pad_token_id=0,
            )
        seconds = time.perf_counter() - start
        assert out.shape == (args.sequences, args.prompt + args.tokens), out.shape
        return seconds

    generate()
    name = f"transformers {transformers.__version__}{' bf16' * args.bf16}"
    print(json.dumps({"peer": name}), flush=True)
    for _ in sys.stdin:
        print(json.dumps([generate()]), flush=True)


if __name__ == "__main__":
    main()
