#pragma once

#include "model/gpt.hpp"
#include "model/sampling.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace gpt {

/// Generates sequences with a key/value cache, several of one prompt at a time: each step reads the weights
/// once for all of them. The tokens of a sequence depend on no other. When the context is full, its last half
/// is read again and generation goes on from there.
///
/// start(), next() and logits() throw what the device does: on the CPU Error where scratch does not fit into
/// memory.
class Generator {
public:
  /// With more at a time, the bits of a sequence would depend on their number.
  static constexpr int64_t most_sequences = few_rows;

  /// Activations and the cache have the dtype of `parameters.matrices`, logits are f32.
  /// @param vocabulary  tokens from here on are never drawn: a model may have more than its tokenizer
  /// @param sequences  at a time, at most; up to most_sequences
  /// @throws Error if activations and the cache do not fit into memory
  Generator(const GptConfig& config, Device& device, const FlatParameters& parameters, int64_t vocabulary,
            int64_t sequences = 1);
  ~Generator();

  /// Starts `sequences` sequences: reads `prompt` (at least one token; only its last `context` tokens) in one
  /// pass. They are numbered from `first` on: those with other numbers draw other random bits.
  void start(const std::vector<int32_t>& prompt, const Sampling& sampling, uint64_t first,
             int64_t sequences = 1);

  /// Appends a token to each sequence. Only after start().
  /// @return those tokens, in the order of the sequences; valid until the next call of next()
  std::span<const int32_t> next();

  /// Of the next token of each sequence, f32 (sequences, vocabulary padded as in the model), in host memory;
  /// valid until the next call of logits(), next() or start(). Only after start().
  Tensor logits();

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpt
