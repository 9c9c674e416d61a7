#include "device/cuda/attention_choice.hpp"

#include "base/error.hpp"
#include "device/cuda_device.hpp"
#include "device/cuda_scratch.hpp"
#include "train/device_choice.hpp"
#include "train/memory_estimate.hpp"

#include <doctest/doctest.h>

using namespace gpt;

namespace {

constexpr AttentionCall fit{.type = DType::bf16, .dropout = 0.0F, .head_size = 64, .addresses = 0x7f00};

AttentionCall with(void (*change)(AttentionCall&)) {
  AttentionCall call = fit;
  change(call);
  return call;
}

}  // namespace

TEST_CASE("what a library's attention is not asked for says why") {
  CHECK(why_own(fit).empty());
  CHECK(why_own(with([](AttentionCall& call) { call.type = DType::f32; })).find("bf16") != std::string::npos);
  CHECK(why_own(with([](AttentionCall& call) { call.dropout = 1e-6F; })).find("dropout") !=
        std::string::npos);
  for (const int64_t size : {1, 7, 20, 100}) {
    AttentionCall call = fit;
    call.head_size = size;
    CHECK(why_own(call).find("multiple of 8") != std::string::npos);
  }
  for (const int64_t size : {8, 24, 128, 256}) {
    AttentionCall call = fit;
    call.head_size = size;
    CHECK(why_own(call).empty());
  }
  for (const uintptr_t off : {1, 2, 8}) {
    AttentionCall call = fit;
    call.addresses |= off;
    CHECK(why_own(call).find("addresses") != std::string::npos);
  }
}

TEST_CASE("one tensor that lies off is enough to be off") {
  alignas(16) bfloat16 memory[16];
  const Tensor on(memory, DType::bf16, {8}), off(memory + 1, DType::bf16, {8});
  CHECK(addresses_of({on, on}) % fused_alignment == 0);
  CHECK(addresses_of({on, off}) % fused_alignment == 2);
  CHECK(addresses_of({off, on}) % fused_alignment == 2);
}

TEST_CASE("cuDNN's workspace is planned where cuDNN may compute") {
  // So long that the gradients of all weights are more than our own attention would take.
  ScratchShape shape{.sequences = 8,
                     .context = 2000,
                     .width = 768,
                     .heads = 12,
                     .rows_of_classifier = 128,
                     .type = DType::bf16};
  const int64_t own = cuda_scratch_bytes(shape), fused = cuda_scratch_bytes(shape, {.cudnn_attention = true});
  CHECK(fused - own > 0);
  CHECK(fused >= int64_t{8} * 12 * 2048 * 2048 * 2);
  shape.type = DType::f32;
  CHECK(cuda_scratch_bytes(shape, {.cudnn_attention = true}) == cuda_scratch_bytes(shape));
}

TEST_CASE("a run's estimate has cuDNN's workspace where that was asked for") {
  TrainOptions options;
  options.device = "cuda";
  options.precision = "bf16";
  options.model = {.layers = 1, .heads = 12, .width = 768, .context = 2048, .vocabulary = 100};
  Plan plan;
  plan.sequences = {0, 8};
  plan.micro_batch = 8;
  const auto scratch = [&] { return estimate_memory(options, plan, {}, 1).scratch; };
  const int64_t own = scratch();
  options.attention = "cudnn";
  CHECK(scratch() > own);
  options.precision = "fp32";
  const int64_t wide = scratch();
  options.attention = "own";
  CHECK(scratch() == wide);
}

TEST_CASE("--attention is refused where there is no cuDNN, and says how to get it") {
  CHECK_NOTHROW(validate_attention("own", "cpu"));
  CHECK_NOTHROW(validate_attention("own", "auto"));
  CHECK_THROWS_WITH_AS(validate_attention("flash", "auto"), "--attention flash: use own or cudnn", Error);
  CHECK_THROWS_WITH_AS(validate_attention("cudnn", "cpu"),
                       doctest::Contains("--attention cudnn with --device cpu"), Error);
  if (has_cudnn_attention()) {
    CHECK_NOTHROW(validate_attention("cudnn", "cuda"));
  } else {
    CHECK_THROWS_WITH_AS(validate_attention("cudnn", "cuda"), doctest::Contains("-DGPT_CUDNN=ON"), Error);
    CHECK_THROWS_WITH_AS(validate_attention("cudnn", "auto"), doctest::Contains("--attention own"), Error);
  }
}
