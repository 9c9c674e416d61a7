#pragma once

#include "model/gpt.hpp"
#include "model/sampling.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace gpt {

/// Generates one sequence at a time with a key/value cache. When the context is full, its last half is read
/// again and generation goes on from there.
class Generator {
public:
  /// @param vocabulary  tokens from here on are never drawn: a model may have more than its tokenizer
  Generator(const GptConfig& config, Device& device, const FlatParameters& parameters, int64_t vocabulary);
  ~Generator();

  /// Starts a sequence: reads `prompt` (at least one token; only its last `context` tokens). Sequences with
  /// other numbers draw other random bits.
  void start(const std::vector<int32_t>& prompt, const Sampling& sampling, uint64_t sequence);

  /// The next token; it is appended to the sequence.
  int32_t next();

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpt
