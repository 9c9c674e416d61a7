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

std::vector<Entry> attention_entries(const GptConfig& config, const std::string& prefix) {
  const int64_t width = config.width;
  std::vector<Entry> entries = {
      {prefix + ".attn.c_attn.weight", {3 * width, width}},
      {prefix + ".attn.c_proj.weight", {width, width}},
      {prefix + ".ln_1.weight", {width}},
  };
  if (config.bias) {
    entries.push_back({prefix + ".ln_1.bias", {width}});
    entries.push_back({prefix + ".attn.c_attn.bias", {3 * width}});
    entries.push_back({prefix + ".attn.c_proj.bias", {width}});
  }
  return entries;
}

std::vector<Entry> mlp_entries(const GptConfig& config, const std::string& prefix) {
  const int64_t width = config.width;
  std::vector<Entry> entries = {
      {prefix + ".mlp.c_fc.weight", {4 * width, width}},
      {prefix + ".mlp.c_proj.weight", {width, 4 * width}},
      {prefix + ".ln_2.weight", {width}},
  };
  if (config.bias) {
    entries.push_back({prefix + ".ln_2.bias", {width}});
    entries.push_back({prefix + ".mlp.c_fc.bias", {4 * width}});
    entries.push_back({prefix + ".mlp.c_proj.bias", {width}});
  }
  return entries;
}

std::vector<Entry> norm_entries(const GptConfig& config) {
  std::vector<Entry> entries = {{"ln_f.weight", {config.width}}};
  if (config.bias) entries.push_back({"ln_f.bias", {config.width}});
  return entries;
}

std::vector<Entry> embedding_entries(const GptConfig& config) {
  return {{"wte.weight", {config.vocabulary, config.width}, config.padded_vocabulary()},
          {"wpe.weight", {config.context, config.width}}};
}

}  // namespace

int64_t Parameter::size() const { return product(shape); }

std::vector<int64_t> backward_order(int64_t sections) {
  std::vector<int64_t> order;
  for (int64_t section = sections - 2; section >= 0; --section) order.push_back(section);
  order.push_back(sections - 1);
  return order;
}

Layout::Layout(const GptConfig& config) {
  validate_config(config);
  const auto add_section = [this](std::string name, const std::vector<Entry>& entries) {
    Section section{.name = std::move(name), .range = {size_, size_}, .decay_end = size_};
    for (const Entry& entry : entries) {
      const int64_t rows = entry.stored_rows > 0 ? entry.stored_rows : entry.shape.front();
      Parameter parameter{.name = entry.name,
                          .shape = entry.shape,
                          .offset = size_,
                          .stored = product(entry.shape) / entry.shape.front() * rows,
                          .decays = entry.shape.size() > 1};
      size_ = round_up(size_ + parameter.stored, parameter_alignment);
      if (parameter.decays) section.decay_end = size_;
      parameters_.push_back(std::move(parameter));
    }
    size_ = round_up(size_, block);
    section.range.end = size_;
    sections_.push_back(std::move(section));
  };
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("h.{}", layer);
    add_section(prefix + ".attn", attention_entries(config, prefix));
    add_section(prefix + ".mlp", mlp_entries(config, prefix));
  }
  add_section("ln_f", norm_entries(config));
  add_section("embedding", embedding_entries(config));
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
