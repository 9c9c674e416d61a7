#include "train/memory.hpp"

#include <cstring>
#include <doctest/doctest.h>
#include <string>
#include <vector>

using namespace gpt;

TEST_CASE("an estimate says what it is made of") {
  const MemoryEstimate estimate{
      .parameters = 4'000'000, .gradients = 4'000'000, .optimizer = 2'000'000, .activations = 1'500'000};
  CHECK(estimate.total() == 11'500'000);
  CHECK(describe(estimate, 1'000'000) ==
        "11.5 MB: parameters 4.0 MB, gradients 4.0 MB, optimizer 2.0 MB (together 10.00 bytes a parameter), "
        "activations 1.5 MB, scratch 0.0 MB");
  CHECK(describe({.tree = 7'000'000, .saving = 8'000'000}, 1).find("subtrees 7.0 MB, ") != std::string::npos);
  CHECK(describe({.saving = 8'000'000}, 1).find(", while saving 8.0 MB") != std::string::npos);
  CHECK(describe({.node_checkpoints = 9'000'000}, 1).find(", checkpoints in memory 9.0 MB") !=
        std::string::npos);
  const MemoryEstimate saving{.gradients = 5, .gathering = 7, .saving = 11, .node_checkpoints = 13};
  CHECK(saving.total() == 36);
  CHECK(saving.on_device() == 12);  // copies are the host's, and what is kept in memory
  CHECK(saving.on_host() == 24);
}

TEST_CASE("the peak of memory rises by what is used") {
  const int64_t before = peak_memory();
  CHECK(before > 1'000'000);
  std::vector<char> used(256 << 20);
  std::memset(used.data(), 1, used.size());
  CHECK(used[used.size() / 2] == 1);
  CHECK(peak_memory() >= before);
  CHECK(peak_memory() >= 256 << 20);
}
