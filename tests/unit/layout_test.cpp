#include "model/layout.hpp"

#include "base/error.hpp"
#include "model/gpt.hpp"
#include "train/buckets.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <vector>

using namespace gpt;

namespace {

const GptConfig odd{.layers = 3, .heads = 3, .width = 15, .context = 7, .vocabulary = 131, .bias = true};

class Hearing : public SectionListener {
public:
  void after_gradients(int64_t section) override { heard.push_back(section); }
  std::vector<int64_t> heard;
};

}  // namespace

TEST_CASE("backward finishes sections in the order that the layout gives") {
  const Layout layout(odd);
  CHECK(layout.backward_order() == std::vector<int64_t>{6, 5, 4, 3, 2, 1, 7, 0});
  const auto device = make_cpu_device(1);
  const auto queue = device->make_queue();
  const TensorBuffer params(*device, DType::f32, {layout.size()}),
      gradients(*device, DType::f32, {layout.size()});
  const TensorBuffer tokens(*device, DType::i32, {1, odd.context}), loss(*device, DType::f64, {1});
  Gpt model(odd, *device, 1, parameters_in(layout, params, gradients));
  Hearing listener;
  model.train({.inputs = tokens, .targets = tokens}, loss, {}, listener, *queue);
  CHECK(listener.heard == layout.backward_order());
}

TEST_CASE("parameters of GPT-2 are counted as its paper's code counts them") {
  GptConfig gpt2 = std::ranges::find(presets(), std::string("gpt2"), &Preset::name)->config;
  gpt2.vocabulary = 50257;
  CHECK(Layout(gpt2).parameters() == 124'439'808);
}

TEST_CASE("parameters lie inside their sections, apart from each other and aligned") {
  for (bool bias : {true, false}) {
    GptConfig config = odd;
    config.bias = bias;
    const Layout layout(config);
    std::vector<Range> taken;
    for (const Parameter& parameter : layout.all()) {
      CHECK(parameter.offset % 16 == 0);
      CHECK(parameter.stored >= parameter.size());
      taken.push_back({parameter.offset, parameter.offset + parameter.stored});
    }
    std::ranges::sort(taken, {}, &Range::begin);
    for (size_t i = 0; i + 1 < taken.size(); ++i) CHECK(taken[i].end <= taken[i + 1].begin);

    std::vector<Range> all = layout.padding();
    all.insert(all.end(), taken.begin(), taken.end());
    std::ranges::sort(all, {}, &Range::begin);
    int64_t covered = 0;
    for (const Range& range : all) {
      CHECK(range.begin == covered);
      covered = range.end;
    }
    CHECK(covered == layout.size());

    int64_t next = 0;
    for (const Section& section : layout.sections()) {
      CHECK(section.range.begin == next);
      CHECK(section.range.size() % Layout::block == 0);
      next = section.range.end;
      for (const Parameter& parameter : layout.all()) {
        if (parameter.offset < section.range.begin || parameter.offset >= section.range.end) continue;
        CHECK(parameter.offset + parameter.stored <= section.range.end);
        CHECK(parameter.is_matrix == (section.name != "vectors"));
        CHECK(parameter.is_matrix == (parameter.shape.size() == 2));
      }
    }
    CHECK(next == layout.size());
    CHECK((layout.find("h.2.mlp.c_fc.bias") != nullptr) == bias);
    CHECK(layout.sections()[static_cast<size_t>(layout.embedding_section())].name == "embedding");
    CHECK(layout.sections()[static_cast<size_t>(layout.mlp_section(2))].name == "h.2.mlp");
    CHECK(layout.sections()[static_cast<size_t>(layout.attention_section(0))].name == "h.0.attn");
    CHECK(layout.sections()[static_cast<size_t>(layout.vector_section())].name == "vectors");
    CHECK(layout.matrices().end == layout.vectors().begin);
    CHECK(layout.vectors().end == layout.size());
  }
}

TEST_CASE("matrices and vectors travel apart, whatever the size of buckets") {
  const Layout layout(odd);
  for (const int64_t bytes : {int64_t{0}, int64_t{1} << 14, int64_t{1} << 30}) {
    CAPTURE(bytes);
    const Buckets buckets(layout, bytes);
    int64_t elements = 0;
    for (const Range& bucket : buckets.ranges()) {
      elements += bucket.size();
      CHECK((bucket.end <= layout.matrices().end || bucket.begin >= layout.vectors().begin));
    }
    CHECK(elements == layout.size());
    CHECK(buckets[buckets.of_section(layout.vector_section())].size() == layout.vectors().size());
  }
}

TEST_CASE("the embedding is stored with padded rows and seen without them") {
  const Layout layout(odd);
  const Parameter* const embedding = layout.find("wte.weight");
  REQUIRE(embedding != nullptr);
  CHECK(embedding->shape == std::vector<int64_t>{131, 15});
  CHECK(embedding->stored == 256 * 15);
}

TEST_CASE("initial weights have the deviations of GPT-2, and zeros wherever no parameter is") {
  GptConfig config{.layers = 8, .heads = 2, .width = 64, .context = 32, .vocabulary = 100, .bias = true};
  const Layout layout(config);
  std::vector<float> weights(static_cast<size_t>(layout.size()));
  initialize_weights(layout, config, 5, Tensor(weights.data(), DType::f32, {layout.size()}));
  std::vector<bool> is_parameter(weights.size());
  for (const Parameter& parameter : layout.all()) {
    double squares = 0;
    for (int64_t i = 0; i < parameter.size(); ++i) {
      const auto at = static_cast<size_t>(parameter.offset + i);
      is_parameter[at] = true;
      squares += weights[at] * double{weights[at]};
    }
    const double deviation = std::sqrt(squares / static_cast<double>(parameter.size()));
    CAPTURE(parameter.name);
    if (parameter.name.ends_with("bias"))
      CHECK(deviation == 0.0);
    else if (!parameter.is_matrix)
      CHECK(deviation == 1.0);
    else
      CHECK(deviation ==
            doctest::Approx(parameter.name.ends_with("c_proj.weight") ? 0.005 : 0.02).epsilon(0.05));
  }
  for (size_t i = 0; i < weights.size(); ++i)
    if (!is_parameter[i]) CHECK(weights[i] == 0.0F);

  std::vector<float> again(weights.size()), other(weights.size());
  initialize_weights(layout, config, 5, Tensor(again.data(), DType::f32, {layout.size()}));
  initialize_weights(layout, config, 6, Tensor(other.data(), DType::f32, {layout.size()}));
  CHECK(again == weights);
  CHECK(other != weights);
}

TEST_CASE("impossible models are refused by the option's name") {
  const auto refusal = [](GptConfig config) -> std::string {
    try {
      validate_config(config);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::usage);
      return error.what();
    }
    return "";
  };
  CHECK(refusal(odd).empty());
  GptConfig config = odd;
  config.heads = 4;
  CHECK(refusal(config).find("--width 15") != std::string::npos);
  config = odd;
  config.layers = 0;
  CHECK(refusal(config).find("--layers 0") != std::string::npos);
  config = odd;
  config.context = -1;
  CHECK(refusal(config).find("--context -1") != std::string::npos);
  config = odd;
  config.dropout = 1.0F;
  CHECK(refusal(config).find("--dropout 1") != std::string::npos);
  config.dropout = std::nanf("");
  CHECK(refusal(config).find("--dropout nan") != std::string::npos);
  config = odd;
  config.layers = config.width = config.heads = int64_t{1} << 24;
  CHECK(refusal(config).find("too large") != std::string::npos);
}
