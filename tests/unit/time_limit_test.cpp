#include "train/time_limit.hpp"

#include <cstdlib>
#include <ctime>
#include <doctest/doctest.h>
#include <string>

namespace gpt {
namespace {

/// The end of the Slurm job, as it says so; nobody's afterwards.
struct SlurmEnd {
  explicit SlurmEnd(const std::string& text) { setenv("SLURM_JOB_END_TIME", text.c_str(), 1); }
  ~SlurmEnd() { unsetenv("SLURM_JOB_END_TIME"); }
  SlurmEnd(const SlurmEnd&) = delete;
  SlurmEnd& operator=(const SlurmEnd&) = delete;
};

TEST_CASE("without a limit time is never over") {
  unsetenv("SLURM_JOB_END_TIME");
  CHECK_FALSE(TimeLimit(0).reached(1e9, 1e9));
}

TEST_CASE("a limit counts from the start of the process, and leaves room for what is still to be done") {
  const TimeLimit limit(100'000);
  CHECK_FALSE(limit.reached(0, 0));
  CHECK_FALSE(limit.reached(20'000, 30'000));  // half as long again is left
  CHECK(limit.reached(30'000, 37'000));
  CHECK(limit.reached(0, 1e9));
  CHECK(TimeLimit(0.001).reached(0, 0));
  CHECK(TimeLimit(2).reached(0, 0));  // ending takes some time itself
  CHECK(limit.reason() == "--time-limit 100000 is near");
}

TEST_CASE("without a limit the end of the Slurm job counts") {
  const SlurmEnd end(std::to_string(std::time(nullptr) + 100'000));
  const TimeLimit limit(0);
  CHECK_FALSE(limit.reached(20'000, 30'000));
  CHECK(limit.reached(30'000, 37'000));
  CHECK(limit.reason() == "the end of the Slurm job is near");
  CHECK_FALSE(TimeLimit(1e9).reached(30'000, 37'000));  // what is asked for goes first
}

TEST_CASE("an end of the job that is no time is none") {
  for (const char* text : {"", "soon", "0", "-1", "12 ", "1e9", "99999999999999999999"}) {
    CAPTURE(text);
    const SlurmEnd end(text);
    CHECK_FALSE(TimeLimit(0).reached(1e9, 1e9));
  }
}

}  // namespace
}  // namespace gpt
