#include "base/error.hpp"
#include "comm/comm_session.hpp"
#include "comm/every_comm.hpp"
#include "comm/nccl_session.hpp"
#include "comm/shared_error.hpp"
#include "support/faults.hpp"

#include <chrono>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gpt {
namespace {

using namespace std::chrono_literals;
using test::make_world;

/// A setting of one rank's environment; none afterwards.
class Setting {
public:
  Setting(const World& world, int rank, const char* name, const char* value) : name_(name) {
    if (world.rank() == rank) setenv(name, value, 1);
  }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

private:
  const char* name_;
};

struct Refusal {
  std::string message;
  ExitCode code = ExitCode::finished;

  bool says(const std::string& text) const { return message.find(text) != std::string::npos; }
};

/// What a session is refused with; no message if it is not.
Refusal refusal(const World& world, double timeout = 60.0) {
  try {
    make_nccl_session(world, test::device(), {.timeout = timeout, .test_bytes = 4096},
                      [](const std::string&) {});
  } catch (const Error& error) {
    return {error.what(), error.code()};
  }
  return {};
}

}  // namespace

TEST_CASE("a session says what it is, how fast, and that each rank may have its own network interface") {
  const auto world = make_world("");
  const Setting interface(*world, world->size() - 1, "NCCL_SOCKET_IFNAME", "lo");
  std::vector<std::string> said;
  const auto session = make_nccl_session(*world, test::device(), {.test_bytes = 1 << 20},
                                         [&](const std::string& line) { said.push_back(line); });
  REQUIRE(said.size() == 1);
  CHECK(said.front().starts_with(session->name() + ": " + std::to_string(world->size()) + " rank"));
  CHECK(said.front().find("all-reduce of 1.0 MiB takes") != std::string::npos);
  CHECK(nccl_library_version().find("loaded " + session->name().substr(5)) != std::string::npos);
}

TEST_CASE("another version of NCCL on one rank is refused before NCCL connects, with its host") {
  const auto world = make_world("");
  if (world->size() == 1) return;
  const int odd = world->size() - 1;
  const Setting version(*world, odd, "GPT_CUDA_STANDIN_NCCL_VERSION", "22703");
  const Refusal refused = refusal(*world);
  CHECK(refused.code == ExitCode::usage);
  CHECK(refused.says(fmt::format("2.27.3 on rank {} ({})", odd, world->host())));
}

TEST_CASE("NCCL that lacks what is called is refused, with what is needed") {
  const auto world = make_world("");
  const Setting version(*world, world->rank(), "GPT_CUDA_STANDIN_NCCL_VERSION", "21704");
  const Refusal refused = refusal(*world);
  CHECK(refused.code == ExitCode::usage);
  CHECK(refused.says("NCCL 2.17.4 is loaded, and 2.18.0 or later is needed"));
}

TEST_CASE(
    "where NCCL does not keep the order of two communicators, one is at work at a time: the same sums") {
  if (make_world("")->size() != 4) return;
  const auto queue = test::device().make_communication_queue();
  std::vector<std::vector<float>> sums;
  const auto sum = [&](const char* name, const char* value, const std::string& expected) {
    const auto world = make_world("2,2");
    std::optional<Setting> setting;
    if (name != nullptr) setting.emplace(*world, world->rank(), name, value);
    const auto session = test::make_session(*world);
    const auto comm = session->make({.block_bytes = test::small_blocks});
    CHECK(comm->name() == expected);
    test::Guarded<float> data(*comm, 100'000);
    data.fill({0, data.size()}, [&](int64_t i) { return 0.1 * static_cast<double>(i % 77 + world->rank()); });
    comm->all_reduce(data.given(*queue), data.tensor(), *queue);
    data.fetch(*queue);
    std::vector<float>& seen = sums.emplace_back();
    for (int64_t i = 0; i < data.size(); ++i) seen.push_back(data[i]);
  };
  const std::string together = "hierarchical NCCL, 2 ranks a node",
                    apart = together + ", one block at a time";
  sum(nullptr, nullptr, together);
  sum("GPT_CUDA_STANDIN_NCCL_VERSION", "22505", apart);
  sum("NCCL_LAUNCH_ORDER_IMPLICIT", "0", apart);
  CHECK(sums[1] == sums[0]);
  CHECK(sums[2] == sums[0]);
}

TEST_CASE("settings that decide how NCCL sums must be the same everywhere") {
  const auto world = make_world("");
  if (world->size() == 1) return;
  {
    const Setting algorithm(*world, 1, "NCCL_ALGO", "Ring");
    const Refusal refused = refusal(*world);
    CHECK(refused.code == ExitCode::usage);
    CHECK(refused.says("NCCL_ALGO: Ring on rank 1 (" + world->host() + ")"));
  }
  CHECK(refusal(*world).message.empty());
}

TEST_CASE("where the system fails NCCL, free shared memory is named") {
  const auto world = make_world("");
  std::optional<Setting> failure;
  failure.emplace(*world, world->rank(), "GPT_CUDA_STANDIN_NCCL_INIT", "system");
  const Refusal refused = refusal(*world);
  CHECK(refused.code == ExitCode::rank_failed);
  CHECK(refused.says("/dev/shm has "));
  CHECK(refused.says(" MiB free"));
  CHECK(refused.says("NCCL_SHM_DISABLE=1"));
  failure.reset();
  world->barrier();
  CHECK(refusal(*world).message.empty());
}

TEST_CASE("the tree is refused: it is not NCCL's") {
  const auto world = make_world("");
  const auto session = test::make_session(*world);
  try {
    session->make({.reduction = Reduction::tree});
    FAIL("no refusal");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    CHECK(std::string(error.what()).find("--reduction tree") != std::string::npos);
    CHECK(std::string(error.what()).find("--device cpu") != std::string::npos);
  }
}

TEST_CASE("a session that was given up takes no more calls, and ends at once") {
  const auto world = make_world("");
  const auto queue = test::device().make_communication_queue();
  {
    const auto session = test::make_session(*world);
    const auto comm = session->make({});
    comm->barrier(*queue);
    queue->synchronize();
    session->give_up();
    CHECK_THROWS_AS(comm->barrier(*queue), Error);
  }
  world->barrier();
  CHECK(refusal(*world).message.empty());
}

TEST_CASE("giving up ends a sum that waits for ranks that never answer") {
  const auto world = make_world("");
  {
    const auto session = test::make_session(*world);
    const auto comm = session->make({});
    const auto queue = test::device().make_communication_queue();
    test::Guarded<float> data(*comm, 1000);
    if (world->rank() == 0) comm->all_reduce(data.given(*queue), data.tensor(), *queue);
    session->give_up();
    queue->synchronize();
  }
  world->barrier();
}

// Each of these ends the job or leaves ranks behind: registered one by one.

TEST_CASE("alone: a rank that comes too late" * doctest::skip()) {
  const auto world = make_world("");
  const test::Faults faults("comm.nccl:delay=3000@rank=1", world->rank());
  const Refusal refused = refusal(*world, 1.0);
  CHECK(refused.code == ExitCode::rank_failed);
  CHECK(refused.says("NCCL did not connect all ranks within 1 s"));
  CHECK(refused.says("NCCL_SOCKET_IFNAME is not set"));
  CHECK(refused.says("interfaces here:"));
}

TEST_CASE("alone: NCCL fails by itself" * doctest::skip()) {
  int argc = 0;
  char** argv = nullptr;
  World world(argc, argv, 30.0);
  world.set_layout({});
  const auto session = test::make_session(world);
  const Setting failure(world, 1, "GPT_CUDA_STANDIN_NCCL_ASYNC", "remote");
  std::this_thread::sleep_for(60s);
  FAIL("nobody ended the job");
}

TEST_CASE("alone: an exception on one rank while the others wait for it" * doctest::skip()) {
  const auto world = make_world("");
  try {
    const auto session = test::make_session(*world);
    const auto comm = session->make({});
    test::Guarded<float> data(*comm, 1 << 16);
    const auto queue = test::device().make_communication_queue();
    const GiveUpOnFailure give_up(*session);
    if (world->rank() == 1) std::this_thread::sleep_for(60s);  // it will never answer
    comm->all_reduce(data.given(*queue), data.tensor(), *queue);
    throw Error("thrown on purpose", ExitCode::damaged);
  } catch (const std::exception& error) {
    world->fail(error);
  }
}

}  // namespace gpt
