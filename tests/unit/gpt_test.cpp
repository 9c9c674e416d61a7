#include "model/gpt.hpp"

#include "device/device.hpp"
#include "support/errors.hpp"

#include <doctest/doctest.h>
#include <functional>

using namespace gpt;

namespace {

const GptConfig small{.layers = 1, .heads = 3, .width = 39, .context = 21, .vocabulary = 97, .bias = true};

}  // namespace

TEST_CASE("a model takes whole contexts only, and no more sequences than it has room for") {
  const auto device = make_cpu_device(1);
  const auto queue = device->make_queue();
  const Layout layout(small);
  const TensorBuffer weights(*device, DType::f32, {layout.size()}),
      gradients(*device, DType::f32, {layout.size()}), loss(*device, DType::f64, {1});
  Gpt model(small, *device, 2, parameters_in(layout, weights, gradients));
  SectionListener nobody;
  const auto tokens = [&](int64_t rows, int64_t columns) {
    return TensorBuffer(*device, DType::i32, {rows, columns});
  };
  const auto refuses = [&](const TensorBuffer& inputs, const TensorBuffer& targets) {
    const Batch batch{.inputs = inputs, .targets = targets};
    const auto says = [&](const std::function<void()>& work) {
      return test::says(test::failure(ExitCode::failed, work), "1 to 2 sequences of 21 tokens");
    };
    return says([&] { model.train(batch, loss, {}, nobody, *queue); }) &&
           says([&] { model.evaluate(batch, loss, nobody, *queue); }) &&
           says([&] { model.logits(loss, batch, *queue); });
  };
  const TensorBuffer right = tokens(2, small.context);
  CHECK(refuses(tokens(2, small.context - 1), tokens(2, small.context - 1)));
  CHECK(refuses(tokens(2, small.context + 1), tokens(2, small.context + 1)));
  CHECK(refuses(tokens(3, small.context), tokens(3, small.context)));
  CHECK(refuses(right, tokens(1, small.context)));
  CHECK(refuses(right, tokens(2, small.context - 1)));
  model.train({.inputs = right, .targets = right}, loss, {}, nobody, *queue);
}
