// Every mistake that the stand-in is there for, made in a program of its own.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <doctest/doctest.h>
#include <memory>
#include <string>

namespace gpt {
namespace {

/// What the program with that mistake prints.
std::string output_of(const std::string& bug, const std::string& order) {
  const std::string command =
      "env -u CUDA_VISIBLE_DEVICES GPT_CUDA_STANDIN_DEVICES=2 GPT_CUDA_STANDIN_STREAMS=deferred "
      "GPT_CUDA_STANDIN_TIMEOUT=1 GPT_CUDA_STANDIN_ORDER=" +
      order + " '" STANDIN_BUGS "' " + bug + " 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  REQUIRE(pipe);
  std::string text;
  std::array<char, 4096> part;
  while (std::fgets(part.data(), int(part.size()), pipe.get())) text += part.data();
  return text;
}

void check_caught(const std::string& bug, const std::string& message) {
  for (const char* order : {"forward", "reverse", "shuffle"}) {
    const std::string text = output_of(bug, order);
    CAPTURE(bug);
    CAPTURE(std::string(order));
    CAPTURE(text);
    CAPTURE(message);
    const bool caught = text.find(message) != std::string::npos;
    CHECK(caught);
  }
}

bool sanitized() { return std::getenv("GPT_TEST_SANITIZED") != nullptr; }

}  // namespace

TEST_CASE("a program without a mistake finishes") { check_caught("none", "finished"); }

TEST_CASE("barriers that not all threads reach, or not the same one, are found") {
  check_caught("missing_barrier", "wrong result");
  check_caught("divergent_barrier", "the barrier of");
}

TEST_CASE("different barriers of a block are told apart") {
  check_caught("different_barriers", "threads wait at different barriers");
}

TEST_CASE("a return before a barrier is found") { check_caught("return_before_barrier", "barrier"); }

TEST_CASE("operations of a warp that not all lanes of the mask reach are found") {
  check_caught("divergent_shuffle", "lane");
  check_caught("lane_outside_mask", "the calling lane is not in the warp mask 0000ffff");
  check_caught("source_outside_mask", "a shuffle reads lane 20, which is not in mask 0000ffff");
  check_caught("different_warp_operations", "different operations");
}

TEST_CASE("a kernel that waits for another block is ended") {
  check_caught("waits_for_another_block", "it waits for another block, or never ends");
}

TEST_CASE("memory of the wrong side, device or extent is refused") {
  check_caught("host_pointer_in_kernel", "is not memory that a device can reach");
  check_caught("use_after_free", "is not memory that a device can reach");
  check_caught("wrong_direction", "is not memory of the device");
  check_caught("copy_out_of_bounds", "reaches beyond its allocation of 16 bytes");
  check_caught("destroyed_stream", "was destroyed or never created");
  check_caught("foreign_device", "is memory of device 1, used by work of device 0");
  check_caught("uninitialised_memory", "wrong result");
}

TEST_CASE("accesses that only the sanitizers see" * doctest::skip(!sanitized())) {
  check_caught("global_out_of_bounds", "heap-buffer-overflow");
  check_caught("static_shared_out_of_bounds", "insufficient space for an object");
  check_caught("dynamic_shared_out_of_bounds", "heap-buffer-overflow");
  check_caught("misaligned_vector", "misaligned address");
  check_caught("host_reads_device", "use-after-poison");
  check_caught("freed_while_in_use", "heap-use-after-free");
}

}  // namespace gpt
