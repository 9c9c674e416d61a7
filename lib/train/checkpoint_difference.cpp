#include "train/checkpoint_difference.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "train/checkpoint_format.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <utility>

namespace gpt {
namespace {

constexpr const char* missing = "—";

std::string text_of(const std::vector<Range>& ranges) {
  std::string text;
  for (const Range& range : ranges) text += fmt::format("[{}, {}) ", range.begin, range.end);
  return text.empty() ? "none" : text.substr(0, text.size() - 1);
}

std::vector<FieldDifference> header_differences(const CheckpointHeader& first,
                                                const CheckpointHeader& second) {
  std::vector<FieldDifference> found;
  const auto compare = [&](const char* field, const auto& a, const auto& b) {
    if (a != b) found.push_back({field, fmt::format("{}", a), fmt::format("{}", b)});
  };
  compare("step", first.step, second.step);
  compare("last_update", first.last_update, second.last_update);
  compare("cursor", first.cursor, second.cursor);
  compare("skipped", text_of(first.skipped), text_of(second.skipped));
  compare("run_id", to_hex(first.run_id), to_hex(second.run_id));
  compare("branch", first.branch, second.branch);
  compare("parent_step", first.parent_step, second.parent_step);
  compare("layers", first.model.layers, second.model.layers);
  compare("heads", first.model.heads, second.model.heads);
  compare("width", first.model.width, second.model.width);
  compare("context", first.model.context, second.model.context);
  compare("vocabulary", first.model.vocabulary, second.model.vocabulary);
  compare("bias", first.model.bias, second.model.bias);
  compare("dropout", first.model.dropout, second.model.dropout);
  compare("tokenizer", to_hex(hash_bytes(first.tokenizer)), to_hex(hash_bytes(second.tokenizer)));
  compare("dataset_fingerprint", to_hex(first.dataset_fingerprint), to_hex(second.dataset_fingerprint));
  compare("dataset_source", first.dataset_source, second.dataset_source);
  compare("spikes", to_hex(hash_bytes(first.spikes)), to_hex(hash_bytes(second.spikes)));
  compare("reduction", first.comm_choice, second.comm_choice);
  return found;
}

/// Lines `name = value`; of one without '=' all is the name.
std::map<std::string, std::string> values_of(const std::string& ini) {
  std::map<std::string, std::string> values;
  std::istringstream lines(ini);
  for (std::string line; std::getline(lines, line);) {
    const size_t sign = line.find('=');
    std::string name = line.substr(0, sign);
    name.resize(name.find_last_not_of(' ') + 1);
    const size_t begin = sign == std::string::npos ? sign : line.find_first_not_of(' ', sign + 1);
    if (!name.empty()) values[name] = begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return values;
}

/// Elements of a flat tensor, of which the block at hand is kept.
class Elements {
public:
  Elements(const OpenCheckpoint& checkpoint, const std::string& name, int64_t size)
      : blocks_(checkpoint, name, size), block_size_(elements_of_blocks({0, 1}, size).size()) {}

  /// As many of [range), from its first on, as lie in one block.
  std::span<const float> read(Range range) {
    if (const int64_t number = range.begin / block_size_; number != number_) {
      block_ = blocks_.read_whole(number);
      number_ = number;
    }
    const Range part = common(range, block_.elements);
    return {block_.data.data<float>() + (part.begin - block_.elements.begin),
            static_cast<size_t>(part.size())};
  }

private:
  StateBlocks blocks_;
  StateBlocks::Block block_;
  int64_t block_size_;
  int64_t number_ = -1;
};

void add(float a, float b, TensorDifference& found) {
  if (std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b)) return;
  ++found.different;
  if (!std::isfinite(a) || !std::isfinite(b)) {
    ++found.not_finite;
    return;
  }
  const double distance = std::abs(double{a} - double{b});
  const double size = std::max(std::abs(double{a}), std::abs(double{b}));
  found.absolute = std::max(found.absolute, distance);
  if (size > 0) found.relative = std::max(found.relative, distance / size);
}

void add(std::span<const float> a, std::span<const float> b, TensorDifference& found) {
  found.elements += std::ssize(a);
  if (std::memcmp(a.data(), b.data(), a.size_bytes()) == 0) return;
  for (size_t i = 0; i < a.size(); ++i) add(a[i], b[i], found);
}

void add(Elements& first, Range in_first, Elements& second, Range in_second, TensorDifference& found) {
  for (int64_t done = 0; done < in_first.size();) {
    const std::span<const float> a = first.read({in_first.begin + done, in_first.end});
    const std::span<const float> b = second.read({in_second.begin + done, in_second.end});
    const size_t both = std::min(a.size(), b.size());
    add(a.first(both), b.first(both), found);
    done += static_cast<int64_t>(both);
  }
}

Range elements_of(const Parameter& parameter) {
  return {parameter.offset, parameter.offset + parameter.size()};
}

/// Elements that are no parameter's values: between sections, and the rows behind the vocabulary.
std::vector<Range> gaps_of(const Layout& layout) {
  std::vector<Range> taken;
  for (const Parameter& parameter : layout.all()) taken.push_back(elements_of(parameter));
  taken.push_back({layout.size(), layout.size()});
  std::ranges::sort(taken, {}, &Range::begin);
  std::vector<Range> gaps;
  int64_t end = 0;
  for (const Range& range : taken) {
    if (range.begin > end) gaps.push_back({end, range.begin});
    end = range.end;
  }
  return gaps;
}

bool same_layout(const GptConfig& a, const GptConfig& b) {
  return a.layers == b.layers && a.width == b.width && a.context == b.context &&
         a.vocabulary == b.vocabulary && a.bias == b.bias;
}

class Comparison {
public:
  Comparison(const std::string& first, const std::string& second, const Progress& progress)
      : first_(open_checkpoint(first)),
        second_(open_checkpoint(second)),
        first_header_(header_of(first_)),
        second_header_(header_of(second_)),
        first_layout_(first_header_.model),
        second_layout_(second_header_.model),
        progress_(progress) {}

  CheckpointDifference run() {
    const std::vector<std::string> ours = state_names(first_);
    const std::vector<std::string> theirs = state_names(second_);
    std::set<std::string> names(ours.begin(), ours.end());
    names.insert(theirs.begin(), theirs.end());
    elements_ = std::ssize(names) * first_layout_.size();
    for (const std::string& name : names) {
      if (std::ranges::count(ours, name) == 0)
        leave_out(name, {}, "only the second has it");
      else if (std::ranges::count(theirs, name) == 0)
        leave_out(name, {}, "only the first has it");
      else
        compare(name);
    }
    return {
        .header = header_differences(first_header_, second_header_),
        .configuration = configuration_differences(first_header_.configuration, second_header_.configuration),
        .tensors = std::move(tensors_)};
  }

private:
  void leave_out(const std::string& state, const std::string& parameter, std::string why) {
    tensors_.push_back({.state = state, .parameter = parameter, .incomparable = std::move(why)});
  }

  void compare(const std::string& state) {
    Elements first(first_, state, first_layout_.size());
    Elements second(second_, state, second_layout_.size());
    for (const Parameter& parameter : first_layout_.all()) {
      const Parameter* const other = second_layout_.find(parameter.name);
      if (other == nullptr) {
        leave_out(state, parameter.name, "only the first has it");
      } else if (other->shape != parameter.shape) {
        leave_out(state, parameter.name,
                  fmt::format("its shape is ({}) in the first, ({}) in the second",
                              fmt::join(parameter.shape, ", "), fmt::join(other->shape, ", ")));
      } else {
        TensorDifference found{.state = state, .parameter = parameter.name, .incomparable = {}};
        add(first, elements_of(parameter), second, elements_of(*other), found);
        tensors_.push_back(std::move(found));
      }
      progress_("comparing", done_ += parameter.size(), elements_);
    }
    for (const Parameter& parameter : second_layout_.all())
      if (first_layout_.find(parameter.name) == nullptr)
        leave_out(state, parameter.name, "only the second has it");
    if (!same_layout(first_header_.model, second_header_.model)) return;
    TensorDifference padding{.state = state, .parameter = "padding", .incomparable = {}};
    for (const Range& gap : gaps_of(first_layout_)) add(first, gap, second, gap, padding);
    tensors_.push_back(std::move(padding));
  }

  OpenCheckpoint first_;
  OpenCheckpoint second_;
  CheckpointHeader first_header_;
  CheckpointHeader second_header_;
  Layout first_layout_;
  Layout second_layout_;
  const Progress& progress_;
  std::vector<TensorDifference> tensors_;
  int64_t done_ = 0;
  int64_t elements_ = 0;
};

}  // namespace

bool CheckpointDifference::same_state() const {
  return std::ranges::all_of(tensors, &TensorDifference::is_equal);
}

std::vector<FieldDifference> configuration_differences(const std::string& first, const std::string& second) {
  const std::map<std::string, std::string> ours = values_of(first);
  const std::map<std::string, std::string> theirs = values_of(second);
  std::set<std::string> names;
  for (const auto* values : {&ours, &theirs})
    for (const auto& [name, value] : *values) names.insert(name);
  const auto value_in = [](const auto& values, const std::string& name) {
    const auto found = values.find(name);
    return found == values.end() ? std::string(missing) : found->second;
  };
  std::vector<FieldDifference> found;
  for (const std::string& name : names)
    if (value_in(ours, name) != value_in(theirs, name))
      found.push_back({name, value_in(ours, name), value_in(theirs, name)});
  return found;
}

CheckpointDifference compare_checkpoints(const std::string& first, const std::string& second,
                                         const Progress& progress) {
  return Comparison(first, second, progress).run();
}

}  // namespace gpt
