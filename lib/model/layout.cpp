#include "model/layout.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"

#include <algorithm>

namespace gpt {
namespace {

// Every parameter starts on a cache line.
constexpr int64_t parameter_alignment = 16;

struct Entry {
  std::string name;
  std::vector<int64_t> shape;
  int64_t stored_rows = 0;  // 0: as many as the shape says
};

int64_t product(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

std::vector<Entry> embedding_entries(const GptConfig& config) {
  return {{"wte.weight", {config.vocabulary, config.width}, config.padded_vocabulary()},
          {"wpe.weight", {config.context, config.width}}};
}

std::vector<Entry> attention_entries(int64_t width, const std::string& prefix) {
  return {{prefix + ".attn.c_attn.weight", {3 * width, width}},
          {prefix + ".attn.c_proj.weight", {width, width}}};
}

std::vector<Entry> mlp_entries(int64_t width, const std::string& prefix) {
  return {{prefix + ".mlp.c_fc.weight", {4 * width, width}},
          {prefix + ".mlp.c_proj.weight", {width, 4 * width}}};
}

std::vector<Entry> vector_entries(const GptConfig& config) {
  const int64_t width = config.width;
  std::vector<Entry> entries;
  const auto add = [&](const std::string& name, int64_t size) { entries.push_back({name, {size}}); };
  const auto add_norm = [&](const std::string& name) {
    add(name + ".weight", width);
    if (config.bias) add(name + ".bias", width);
  };
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("h.{}", layer);
    add_norm(prefix + ".ln_1");
    if (config.bias) add(prefix + ".attn.c_attn.bias", 3 * width);
    if (config.bias) add(prefix + ".attn.c_proj.bias", width);
    add_norm(prefix + ".ln_2");
    if (config.bias) add(prefix + ".mlp.c_fc.bias", 4 * width);
    if (config.bias) add(prefix + ".mlp.c_proj.bias", width);
  }
  add_norm("ln_f");
  return entries;
}

}  // namespace

int64_t Parameter::size() const { return product(shape); }

std::vector<int64_t> backward_order(int64_t sections) {
  std::vector<int64_t> order;
  const int64_t embeddings = 0, vectors = sections - 1;
  for (int64_t branch = vectors - 1; branch > embeddings; --branch) order.push_back(branch);
  order.push_back(vectors);
  order.push_back(embeddings);
  return order;
}

Layout::Layout(const GptConfig& config) {
  validate_config(config);
  const auto add_section = [this](std::string name, const std::vector<Entry>& entries) {
    Section section{.name = std::move(name), .range = {size_, size_}};
    for (const Entry& entry : entries) {
      const int64_t rows = entry.stored_rows > 0 ? entry.stored_rows : entry.shape.front();
      Parameter parameter{.name = entry.name,
                          .shape = entry.shape,
                          .offset = size_,
                          .stored = product(entry.shape) / entry.shape.front() * rows,
                          .is_matrix = entry.shape.size() > 1};
      size_ = round_up(size_ + parameter.stored, parameter_alignment);
      parameters_.push_back(std::move(parameter));
    }
    size_ = round_up(size_, block);
    section.range.end = size_;
    sections_.push_back(std::move(section));
  };
  add_section("embedding", embedding_entries(config));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("h.{}", layer);
    add_section(prefix + ".attn", attention_entries(config.width, prefix));
    add_section(prefix + ".mlp", mlp_entries(config.width, prefix));
  }
  add_section("vectors", vector_entries(config));
}

int64_t Layout::parameters() const {
  int64_t count = 0;
  for (const Parameter& parameter : parameters_) count += parameter.size();
  return count;
}

std::vector<Range> Layout::padding() const {
  std::vector<Range> gaps;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const int64_t end = parameters_[i].offset + parameters_[i].stored;
    const int64_t next = i + 1 < parameters_.size() ? parameters_[i + 1].offset : size_;
    if (end < next) gaps.push_back({end, next});
  }
  return gaps;
}

std::vector<Range> Layout::ranges_in_backward_order() const {
  std::vector<Range> ranges;
  for (const int64_t section : backward_order())
    ranges.push_back(sections_[static_cast<size_t>(section)].range);
  return ranges;
}

const Parameter* Layout::find(std::string_view name) const {
  const auto found = std::ranges::find(parameters_, name, &Parameter::name);
  return found == parameters_.end() ? nullptr : &*found;
}

}  // namespace gpt
