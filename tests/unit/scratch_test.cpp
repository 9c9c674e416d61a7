#include "device/cpu/cpu_ops.hpp"
#include "device/cpu/matrix_products.hpp"
#include "device/cpu_scratch.hpp"
#include "device/device.hpp"
#include "model/gpt.hpp"
#include "support/counting_device.hpp"
#include "train/weights.hpp"

#include <doctest/doctest.h>

using namespace gpt;

namespace {

constexpr int threads = 2;

/// Counts what is held, whoever gives it.
class Held : public Allocator {
public:
  explicit Held(Allocator& source) : source_(source) {}
  void* allocate(int64_t bytes) override {
    held += bytes;
    return source_.allocate(bytes);
  }
  void release(void* data, int64_t bytes) override {
    held -= bytes;
    source_.release(data, bytes);
  }
  int64_t held = 0;

private:
  Allocator& source_;
};

/// The CPU with operations whose own memory is counted.
class ScratchDevice : public test::CountingDevice {
public:
  Ops& ops() override { return ops_; }
  int64_t scratch() const { return scratch_.held; }

private:
  std::unique_ptr<Device> source_ = make_cpu_device(threads);
  Held scratch_{*source_};
  CpuOps ops_{threads, scratch_};
};

}  // namespace

TEST_CASE("operations take the working memory that is estimated") {
  const GptConfig config{.layers = 1, .heads = 2, .width = 64, .context = 128, .vocabulary = 1000};
  for (const DType type : {DType::f32, DType::bf16})
    for (const int64_t sequences : {int64_t{3}, int64_t{9}})  // logits in one tile, and in two
      for (const bool accumulates : {false, true}) {
        CAPTURE(name_of(type));
        CAPTURE(sequences);
        CAPTURE(accumulates);
        ScratchDevice device;
        const auto queue = device.make_queue();
        const Layout layout(config);
        const TensorBuffer gradients(device, DType::f32, {layout.size()});
        const TensorBuffer tokens(device, DType::i32, {sequences, config.context});
        const TensorBuffer loss(device, DType::f64, {1});
        const Weights weights(layout, device, type);
        Gpt model(config, device, sequences, weights.with(gradients));
        SectionListener nobody;
        for (int micro = 0; micro < (accumulates ? 2 : 1); ++micro)
          model.train({.inputs = tokens, .targets = tokens}, loss,
                      {.write = micro == 0 ? Write::overwrite : Write::accumulate}, nobody, *queue);

        const ScratchShape shape{.sequences = sequences,
                                 .context = config.context,
                                 .width = config.width,
                                 .heads = config.heads,
                                 .rows_of_classifier = config.padded_vocabulary(),
                                 .type = type,
                                 .accumulates = accumulates,
                                 .threads = threads};
        // Areas grow by whole 4 KiB; oneDNN's own memory is not counted here.
        const bool sums_itself = type == DType::bf16 && !widens_bfloat16();
        const int64_t library = sums_itself ? sequences * config.context * config.width * 4 : 0;
        const int64_t losses = sequences * config.context * 8;
        const int64_t estimate = cpu_scratch_bytes(shape) - library - losses;
        CHECK(device.scratch() >= estimate);
        CHECK(device.scratch() <= estimate + 6 * 4096);
      }
}
