#include "train/granted_gpus.hpp"

#include <doctest/doctest.h>

using namespace gpt;

TEST_CASE("idle GPUs are noticed, and only those") {
  const auto notice = [](int ranks, const char* granted) {
    return idle_gpu_notice(ranks, [=](const char*) { return granted; });
  };
  CHECK_FALSE(notice(1, nullptr));
  CHECK_FALSE(notice(8, "8"));
  CHECK_FALSE(notice(9, "8"));
  CHECK_FALSE(notice(1, "gpu:8"));
  const auto text = notice(2, "8");
  REQUIRE(text);
  CHECK(text->find("6 of them stand idle") != std::string::npos);
  CHECK(text->find("--ntasks-per-node=8") != std::string::npos);
}
