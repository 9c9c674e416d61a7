#pragma once

#include "base/integers.hpp"
#include "model/config.hpp"

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

/// One parameter inside the flat buffer.
struct Parameter {
  std::string name;            ///< "h.0.attn.c_attn.weight"
  std::vector<int64_t> shape;  ///< as named views show it; the embedding's storage has padded rows behind it
  int64_t offset = 0;          ///< in elements of the flat buffer
  int64_t stored = 0;          ///< elements it takes, row padding included
  bool is_matrix = false;      ///< weight decay applies, and with bf16 the model reads that

  int64_t size() const;  ///< product of `shape`
};

/// Parameters whose gradients finish together: the matrices of a branch of a transformer block, all vectors,
/// the embeddings.
struct Section {
  std::string name;
  Range range;
};

/// Numbers of `sections` sections in the order in which backward finishes their gradients: branches of blocks
/// from the last to the first, vectors, embeddings.
std::vector<int64_t> backward_order(int64_t sections);

/// The single map of all parameters. Parameters, gradients and optimizer state are flat buffers of size()
/// that share it. Sections are padded to multiples of 1024 elements, padding is zero and stays zero; nothing
/// here depends on the rank count.
///
///     | embeddings | attention 0 | MLP 0 | attention 1 | … | vectors |
///
/// Matrices first, as forward uses them, then the vectors (norms, biases) of all blocks: matrices decay, and
/// with bf16 they are read in another type, so each is one range.
class Layout {
public:
  static constexpr int64_t block = 1024;  ///< unit of section padding and of gradient-norm sums

  explicit Layout(const GptConfig& config);

  int64_t size() const { return size_; }  ///< elements of a flat buffer
  int64_t parameters() const;             ///< elements without any padding
  const std::vector<Parameter>& all() const { return parameters_; }
  const std::vector<Section>& sections() const { return sections_; }
  std::vector<Range> padding() const;  ///< elements that belong to no parameter, not even as padded rows
  const Parameter* find(std::string_view name) const;  ///< null if there is none of that name

  Range matrices() const { return {0, vectors().begin}; }
  Range vectors() const { return sections_.back().range; }

  int64_t embedding_section() const { return 0; }
  int64_t attention_section(int64_t layer) const { return 1 + 2 * layer; }
  int64_t mlp_section(int64_t layer) const { return 2 + 2 * layer; }
  int64_t vector_section() const { return std::ssize(sections_) - 1; }

  std::vector<int64_t> backward_order() const { return gpt::backward_order(std::ssize(sections_)); }
  /// Elements of the sections, in that order.
  std::vector<Range> ranges_in_backward_order() const;

private:
  std::vector<Parameter> parameters_;
  std::vector<Section> sections_;
  int64_t size_ = 0;
};

}  // namespace gpt
