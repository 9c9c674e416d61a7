#include "train/ledger.hpp"

#include "comm/shared_folder.hpp"
#include "support/errors.hpp"
#include "support/faults.hpp"
#include "train/ledger_audit.hpp"

#include <doctest/doctest.h>
#include <memory>
#include <string>

namespace gpt {
namespace {

using test::Faults;
using test::says;
using test::SharedFolder;

struct TestWorld : World {
  TestWorld() : TestWorld(0, nullptr) { set_layout({}); }

private:
  TestWorld(int argc, char** argv) : World(argc, argv) {}
};

/// A run on all ranks, with a sequence or two for each.
struct Job {
  TestWorld world;
  SharedFolder folder{world};
  LedgerStretch stretch{.attempt = 1,
                        .run_id = 7,
                        .branch = 0,
                        .from_branch = -1,
                        .elsewhere = false,
                        .step = 0,
                        .cursor = 0,
                        .skipped = {},
                        .lanes = 3,
                        .windows_per_lane = 50,
                        .context = 16,
                        .global_batch = 9,
                        .ranks = world.size(),
                        .dataset = 1};
  Ledger ledger{folder.path, world.rank()};

  void take(int64_t step) {
    const Lanes order(stretch.lanes, stretch.windows_per_lane, 5, stretch.skipped);
    const Range part = part_of(stretch.global_batch, world.size(), world.rank());
    HostBatch batch;
    batch.first_sequence = part.begin;
    batch.count = part.size();
    const int64_t cursor = stretch.cursor_after(step - 1);
    for (int64_t sequence = part.begin; sequence < part.end; ++sequence) {
      const WindowId id = order.sequence(sequence, stretch.global_batch, cursor);
      batch.reads.push_back({.shard = id.lane, .token = id.index * stretch.context});
    }
    ledger.record(step, cursor, batch);
  }

  /// Whether all of so many steps are on the disk, and no more, as the root sees it.
  bool holds(int64_t steps) {
    bool right = true;
    if (world.is_root()) {
      const LedgerReport report = audit_ledger(folder.path);
      right = report.exact() && report.last_step == steps;
    }
    return world.broadcast(right ? "yes" : "no") == "yes";
  }

  /// What flushing throws, the same on all ranks; empty: nothing.
  std::string flush(const World& ranks) {
    try {
      ledger.flush(ranks);
    } catch (const SharedError& error) {
      CHECK(error.code() == ExitCode::saving_failed);
      return error.what();
    }
    return {};
  }
};

TEST_CASE("the root's file holds what every rank read until the flush") {
  Job job;
  job.ledger.begin(job.stretch);
  for (int64_t step = 1; step <= 4; ++step) job.take(step);
  CHECK(job.flush(job.world).empty());
  CHECK(job.holds(4));
  for (int64_t step = 5; step <= 9; ++step) job.take(step);
  CHECK(job.holds(4));
  const std::unique_ptr<World> beside = job.world.duplicate();
  CHECK(job.flush(*beside).empty());
  CHECK(job.holds(9));
  CHECK(job.flush(job.world).empty());  // nothing new
  CHECK(job.holds(9));
}

TEST_CASE("a rollback's records are a stretch of their own") {
  Job job;
  job.ledger.begin(job.stretch);
  for (int64_t step = 1; step <= 6; ++step) job.take(step);
  job.stretch.step = 4;
  job.stretch.cursor = 12;
  job.stretch.from_branch = 0;
  job.stretch.branch = 1;
  job.stretch.skipped = {{12, 15}};
  job.ledger.begin(job.stretch);
  for (int64_t step = 5; step <= 8; ++step) job.take(step);
  CHECK(job.flush(job.world).empty());
  CHECK(job.holds(8));
}

TEST_CASE("what a disk did not take is kept, and goes there the next time") {
  Job job;
  job.ledger.begin(job.stretch);
  for (int64_t step = 1; step <= 3; ++step) job.take(step);
  {
    const Faults full("ledger.write:throw@rank=0,hit=1", job.world.rank());
    says(job.flush(job.world), "what was read cannot be recorded");
  }
  job.take(4);
  CHECK(job.flush(job.world).empty());
  CHECK(job.holds(4));
  job.take(5);
  {
    const Faults full("ledger.write:throw@rank=0", job.world.rank());
    job.ledger.keep(job.world);
  }
  CHECK(job.holds(4));
  job.take(6);
  job.ledger.keep(job.world);
  CHECK(job.holds(6));
}

TEST_CASE("records are kept in memory for some quarter of a million windows of a rank") {
  CHECK(Ledger::interval(int64_t{1} << 28, 1) == 1);
  CHECK(Ledger::interval(32, 1) == 8192);
  CHECK(Ledger::interval(32, 32) == int64_t{1} << 18);
}

}  // namespace
}  // namespace gpt
