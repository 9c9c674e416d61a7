#include "base/fault.hpp"

#include "base/error.hpp"
#include "support/faults.hpp"

#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <doctest/doctest.h>
#include <set>
#include <thread>
#include <vector>

namespace gpt {

using test::Faults;

TEST_CASE("a fault acts at its point, step, rank and hit only") {
  const Faults faults("here:throw@rank=2,step=7,hit=2;elsewhere:throw@rank=1", 2);
  CHECK_NOTHROW(fault_point("elsewhere"));
  set_fault_step(7);
  CHECK_NOTHROW(fault_point("here"));
  CHECK_NOTHROW(fault_point("there"));
  CHECK_THROWS_AS(fault_point("here"), Error);
  CHECK_NOTHROW(fault_point("here"));
  set_fault_step(8);
  CHECK_NOTHROW(fault_point("here"));
}

TEST_CASE("a thread may work on a step of its own") {
  const Faults faults("here:throw@step=7");
  set_fault_step(9);
  const auto throws_at = [](int64_t step) {
    bool thrown = false;
    std::jthread([&] {
      const FaultStep own(step);
      try {
        fault_point("here");
      } catch (const Error&) {
        thrown = true;
      }
    }).join();
    return thrown;
  };
  CHECK(throws_at(7));
  CHECK_FALSE(throws_at(9));
  {
    const FaultStep own(7);
    CHECK_THROWS_AS(fault_point("here"), Error);
  }
  CHECK_NOTHROW(fault_point("here"));
}

TEST_CASE("without conditions a fault acts every time") {
  const Faults faults("here:throw");
  CHECK_THROWS_AS(fault_point("here"), Error);
  CHECK_THROWS_AS(fault_point("here"), Error);
}

TEST_CASE("malformed faults are refused") {
  for (const char* text :
       {"here", "here:explode", "here:kill@rank=x", "here:kill@day=3", "here:delay=soon", "here:jitter"}) {
    const Faults nothing("");
    setenv("GPT_FAULT", text, 1);
    CHECK_THROWS_AS(configure_faults(0), Error);
  }
}

TEST_CASE("a name that is no point of the program is refused, with those that are") {
  const Faults nothing("");
  const auto accepts = [](const char* text, Program program) {
    setenv("GPT_FAULT", text, 1);
    try {
      configure_faults(0, program);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::usage);
      CHECK(std::string(error.what()).find("start, ") != std::string::npos);
      return false;
    }
    return true;
  };
  CHECK(accepts("save:delay=1;step:delay=1@rank=3", Program::training));
  CHECK_FALSE(accepts("save:delay=1;nosuch:kill", Program::training));
  CHECK_FALSE(accepts("nosuch:kill@rank=3", Program::training));
  CHECK_FALSE(accepts("bench.sum:throw", Program::training));
  CHECK(accepts("bench.sum:throw", Program::bench));
  CHECK_FALSE(accepts("save:throw", Program::bench));
}

TEST_CASE("actions on files are refused where no file is written or read, with the points that take them") {
  const Faults nothing("");
  const auto refusal = [](const char* text, Program program) -> std::string {
    setenv("GPT_FAULT", text, 1);
    try {
      configure_faults(0, program);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::usage);
      return error.what();
    }
    return {};
  };
  for (const char* text : {"save.write:flip", "save.commit:short", "save.reserve:full", "log.write:short",
                           "load:ioerror", "lease.renew:full", "save.write:kill", "gradients:nan"})
    CHECK(refusal(text, Program::training).empty());
  CHECK(refusal("shard.write:flip", Program::data).empty());
  for (const char* text : {"step:flip", "load:full", "save.reserve:flip", "save.write:nan"})
    CHECK(refusal(text, Program::training).find("acts at these points only: ") != std::string::npos);
  CHECK(refusal("step:short", Program::training).find("save.write, save.commit") != std::string::npos);
}

TEST_CASE("a point at which a file is written says what becomes of the write") {
  {
    const Faults faults("here:full@hit=1;here:ioerror@hit=2;here:short@hit=3;here:flip@hit=4");
    CHECK(file_point("here").error == ENOSPC);
    CHECK(file_point("here").error == EIO);
    CHECK(file_point("here").cuts);
    CHECK(file_point("here").flips);
    const FileFault fault = file_point("here");
    CHECK(fault.error == 0);
    CHECK_FALSE(fault.damages());
  }
  const Faults faults("here:throw");
  CHECK_THROWS_AS(file_point("here"), Error);
}

TEST_CASE("a flip changes one bit, another one each time, and a short write halves") {
  const Faults faults("here:flip");
  const std::vector<std::byte> whole(1000, std::byte{0x5a});
  std::set<size_t> places;
  for (int time = 0; time < 20; ++time) {
    const std::vector<std::byte> arrived = damaged(whole, file_point("here"));
    REQUIRE(arrived.size() == whole.size());
    int bits = 0;
    for (size_t i = 0; i < whole.size(); ++i) {
      const int here = std::popcount(std::to_integer<unsigned>(arrived[i] ^ whole[i]));
      if (here > 0) places.insert(i);
      bits += here;
    }
    CHECK(bits == 1);
  }
  CHECK(places.size() > 10);
  CHECK(damaged(whole, {.cuts = true}).size() == 500);
  CHECK(damaged({}, {.flips = true}).empty());
}

TEST_CASE("it is known which faults did nothing") {
  const Faults faults("here:delay=1;there:delay=1;here:delay=1@hit=3;here:delay=1@rank=1;end:delay=1", 0);
  fault_point("here");
  fault_point("here");
  const std::vector<FaultUse> uses = fault_uses();
  REQUIRE(uses.size() == 4);
  CHECK(uses[0].acted);
  CHECK_FALSE(uses[1].acted);
  CHECK_FALSE(uses[2].acted);
  CHECK(uses[3].text == "here:delay=1@rank=1");
  CHECK_FALSE(uses[3].acted);
}

TEST_CASE("a jitter takes another part of its time each time, on every rank its own") {
  std::set<int64_t> microseconds;
  for (const int rank : {0, 1}) {
    const Faults faults("here:jitter=4", rank);
    for (int hit = 0; hit < 8; ++hit) {
      const auto start = std::chrono::steady_clock::now();
      fault_point("here");
      const auto taken = std::chrono::steady_clock::now() - start;
      microseconds.insert(std::chrono::duration_cast<std::chrono::microseconds>(taken).count());
    }
  }
  CHECK(microseconds.size() > 8);
  CHECK(*microseconds.begin() < 2000);
  CHECK(*microseconds.rbegin() > 2000);
}

}  // namespace gpt
