#include "device/gpu_peaks.hpp"

#include "model/model_flops.hpp"

#include <doctest/doctest.h>

namespace gpt {

TEST_CASE("GPUs are known by the words of their names") {
  const auto tera = [](const char* name) {
    const auto peaks = documented_peaks(name);
    return peaks ? peaks->bf16 / 1e12 : 0.0;
  };
  CHECK(tera("NVIDIA A100-SXM4-80GB") == 312);
  CHECK(tera("NVIDIA A100 80GB PCIe") == 312);
  CHECK(tera("NVIDIA H100 80GB HBM3") == 989);
  CHECK(tera("NVIDIA H100 PCIe") == 756);
  CHECK(tera("NVIDIA H100 NVL") == 835.5);
  CHECK(tera("NVIDIA H200") == 989);
  CHECK(tera("NVIDIA GH200 480GB") == 989);
  CHECK(tera("NVIDIA B200") == 2250);
  CHECK(tera("NVIDIA GB200") == 2500);
  CHECK(tera("NVIDIA L40S") == 362);
  for (const char* name : {"NVIDIA L40", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA GeForce RTX 4090",
                           "CPU stand-in", "NVIDIA A1000", ""})
    CHECK_FALSE(documented_peaks(name).has_value());
}

TEST_CASE("a precision has its own peak") {
  const GpuPeaks h100 = documented_peaks("NVIDIA H100 80GB HBM3").value();
  CHECK(h100.flops(DType::bf16, false) == 989e12);
  CHECK(h100.flops(DType::bf16, true) == 989e12);
  CHECK(h100.flops(DType::f32, true) == 494.5e12);
  CHECK(h100.flops(DType::f32, false) == 67e12);
}

TEST_CASE("a token of gpt2 is worth what llm.c counts") {
  const GptConfig gpt2{.layers = 12, .heads = 12, .width = 768, .context = 1024, .vocabulary = 50257};
  CHECK(model_flops_per_token(gpt2, 124439808) == 6.0 * 124439808 + 6.0 * 12 * 768 * 1024);
}

}  // namespace gpt
