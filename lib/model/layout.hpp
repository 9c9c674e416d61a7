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
  bool decays = false;         ///< weight decay applies: matrices only

  int64_t size() const;  ///< product of `shape`
};

/// Parameters whose gradients finish together: a branch of a transformer block, the final norm, the
/// embeddings. Matrices first, so that [range.begin, decay_end) decays and the rest does not.
struct Section {
  std::string name;
  Range range;
  int64_t decay_end = 0;
};

/// Numbers of `sections` sections in the order in which backward finishes their gradients: the norm, branches
/// of blocks from the last to the first, the embeddings.
std::vector<int64_t> backward_order(int64_t sections);

/// The single map of all parameters. Parameters, gradients and optimizer state are flat buffers of size()
/// that share it. Sections are padded to multiples of 1024 elements, padding is zero and stays zero; nothing
/// here depends on the rank count. Order: attention and MLP of blocks 0…L−1, final norm, embeddings (which
/// finish last in backward).
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

  int64_t attention_section(int64_t layer) const { return 2 * layer; }
  int64_t mlp_section(int64_t layer) const { return 2 * layer + 1; }
  int64_t norm_section() const { return static_cast<int64_t>(sections_.size()) - 2; }
  int64_t embedding_section() const { return static_cast<int64_t>(sections_.size()) - 1; }

  std::vector<int64_t> backward_order() const { return gpt::backward_order(std::ssize(sections_)); }
  /// Elements of the sections, in that order.
  std::vector<Range> ranges_in_backward_order() const;

private:
  std::vector<Parameter> parameters_;
  std::vector<Section> sections_;
  int64_t size_ = 0;
};

}  // namespace gpt
