#include "support/errors.hpp"
#include "support/scratch_folder.hpp"
#include "train/ledger_audit.hpp"
#include "train/ledger_file.hpp"
#include "train/ledger_format.hpp"
#include "train/ledger_losses.hpp"

#include <doctest/doctest.h>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace gpt {
namespace {

using test::failure;
using test::says;
using test::ScratchFolder;

constexpr uint64_t seed = 11;

/// The first start of a run on 2 shards of 5 windows, with batches of 4 on 2 ranks.
LedgerStretch beginning() {
  return {.attempt = 1,
          .run_id = 7,
          .branch = 0,
          .from_branch = -1,
          .elsewhere = false,
          .step = 0,
          .cursor = 0,
          .skipped = {},
          .lanes = 2,
          .windows_per_lane = 5,
          .context = 8,
          .global_batch = 4,
          .ranks = 2,
          .dataset = 3};
}

/// A start that goes on from where `before` was after `step` steps.
LedgerStretch going_on(const LedgerStretch& before, int64_t step) {
  LedgerStretch next = before;
  ++next.attempt;
  next.from_branch = before.branch;
  next.cursor = before.cursor_after(step);
  next.step = step;
  return next;
}

/// What the rank has to read. @param skipped  that it passes over
StepReads reads_of(const LedgerStretch& s, int64_t step, int64_t rank, const std::vector<Range>& skipped) {
  const Lanes order(s.lanes, s.windows_per_lane, seed, skipped);
  const Range part = part_of(s.global_batch, s.ranks, rank);
  StepReads reads{
      .step = step, .cursor = s.cursor_after(step - 1), .first_sequence = part.begin, .reads = {}};
  for (int64_t sequence = part.begin; sequence < part.end; ++sequence) {
    const WindowId id = order.sequence(sequence, s.global_batch, reads.cursor);
    reads.reads.push_back({.shard = id.lane, .token = id.index * s.context});
  }
  return reads;
}

using Change = std::function<bool(int64_t rank, StepReads& reads)>;  // false: leave it out

/// One start's file.
class Start {
public:
  explicit Start(const std::string& run) : file_(run) {}

  void begin(const LedgerStretch& stretch) {
    stretch_ = stretch;
    skipped_ = stretch.skipped;
    ++number_;
    file_.write(encode_group(
        {.kind = LedgerGroup::Kind::stretch, .rank = 0, .stretch = number_, .payload = to_text(stretch)}));
  }

  /// What its ranks read from now on is as if these were passed over, whatever the stretch says.
  void pass_over(std::vector<Range> skipped) { skipped_ = std::move(skipped); }

  /// Reads of these steps, by all ranks.
  void take(int64_t first, int64_t last, const Change& change = {}) {
    for (int64_t rank = 0; rank < stretch_.ranks; ++rank) {
      std::string payload;
      for (int64_t step = first; step <= last; ++step) {
        StepReads reads = reads_of(stretch_, step, rank, skipped_);
        if (!change || change(rank, reads)) append_reads(payload, reads);
      }
      file_.write(encode_group(
          {.kind = LedgerGroup::Kind::reads, .rank = rank, .stretch = number_, .payload = payload}));
    }
  }

private:
  LedgerFile file_;
  LedgerStretch stretch_;
  std::vector<Range> skipped_;
  int64_t number_ = -1;
};

/// A run of one start and 10 steps, with what `change` makes of its reads.
LedgerReport report_of(const Change& change) {
  const ScratchFolder run;
  Start start(run.path());
  start.begin(beginning());
  start.take(1, 10, change);
  return audit_ledger(run.path());
}

std::vector<std::string> payloads_of(const std::string& file, std::vector<Range>* others = nullptr) {
  std::vector<std::string> payloads;
  const std::vector<Range> ranges =
      read_groups(file, [&](const LedgerGroup& group) { payloads.push_back(group.payload); });
  if (others != nullptr) *others = ranges;
  return payloads;
}

TEST_CASE("reads of any size survive their bytes") {
  const std::vector<StepReads> steps = {
      {.step = 1, .cursor = 0, .first_sequence = 0, .reads = {}},
      {.step = 127, .cursor = 128, .first_sequence = 3, .reads = {{0, 0}, {0, 127}, {0, 128}, {1, 0}}},
      {.step = int64_t{1} << 33,
       .cursor = INT64_MAX,
       .first_sequence = 1000,
       .reads = {{500, int64_t{1} << 62}, {3, 5}, {500, INT64_MAX}}}};
  std::string bytes;
  for (const StepReads& step : steps) append_reads(bytes, step);
  size_t at = 0;
  parse_reads(bytes, [&](const StepReads& step) {
    REQUIRE(at < steps.size());
    CHECK(step.step == steps[at].step);
    CHECK(step.cursor == steps[at].cursor);
    CHECK(step.first_sequence == steps[at].first_sequence);
    CHECK(step.reads == steps[at].reads);
    ++at;
  });
  CHECK(at == steps.size());

  std::string usual;
  append_reads(usual, reads_of(beginning(), 5, 1, {}));
  CHECK(usual.size() == 8);  // step, cursor, first sequence, number; shard and how many; two tokens
}

TEST_CASE("bytes that are no reads are refused") {
  const auto parse = [](const std::string& bytes) {
    return failure(ExitCode::damaged, [&] { parse_reads(bytes, [](const StepReads&) {}); });
  };
  std::string bytes;
  append_reads(bytes, {.step = 300, .cursor = 7, .first_sequence = 0, .reads = {{0, 5}, {1, 300}}});
  for (size_t size = 1; size < bytes.size(); ++size) CHECK(!parse(bytes.substr(0, size)).empty());
  says(parse(std::string(10, '\xff')), "more than 63 bits");
  says(parse({1, 0, 0, 100}), "says 100 reads");
  says(parse({1, 0, 0, 2, 3, 0, 0, 0}), "3 reads of a shard, where 2 are left");
  says(parse({0, 0, 0, 0}), "of step 0");
}

TEST_CASE("a stretch survives its text, and is refused where its figures cannot be") {
  LedgerStretch stretch = beginning();
  stretch.skipped = {{3, 5}, {9, 10}};
  stretch.run_id = 0xfedcba9876543210;
  stretch.elsewhere = true;
  const LedgerStretch back = stretch_from_text(to_text(stretch));
  CHECK(to_text(back) == to_text(stretch));
  CHECK(back.run_id == stretch.run_id);
  CHECK(back.skipped == stretch.skipped);

  const auto refused = [](const std::function<void(LedgerStretch&)>& change) {
    LedgerStretch wrong = beginning();
    change(wrong);
    return !failure(ExitCode::damaged, [&] { stretch_from_text(to_text(wrong)); }).empty();
  };
  CHECK(!refused([](LedgerStretch&) {}));
  CHECK(refused([](LedgerStretch& s) { s.lanes = 0; }));
  CHECK(refused([](LedgerStretch& s) { s.global_batch = 5; }));
  CHECK(refused([](LedgerStretch& s) { s.windows_per_lane = INT64_MAX; }));
  CHECK(refused([](LedgerStretch& s) { s.context = 0; }));
  CHECK(refused([](LedgerStretch& s) { s.step = -1; }));
  CHECK(refused([](LedgerStretch& s) { s.skipped = {{5, 3}}; }));
  CHECK(!failure(ExitCode::damaged, [] { stretch_from_text("{\"attempt\": []}"); }).empty());
  CHECK(!failure(ExitCode::damaged, [] { stretch_from_text("no json"); }).empty());
}

TEST_CASE("a file torn anywhere gives the groups before, and says where it is torn") {
  const ScratchFolder run;
  {
    Start start(run.path());
    start.begin(beginning());
    start.take(1, 3);
  }
  const std::string file = list_ledger(run.path()).at(0), whole = test::bytes_of(file);
  std::vector<Range> others;
  const std::vector<std::string> payloads = payloads_of(file, &others);
  REQUIRE(payloads.size() == 3);
  CHECK(others.empty());
  for (size_t size = 0; size < whole.size(); ++size) {
    test::write_bytes(file, whole.substr(0, size));
    const std::vector<std::string> left = payloads_of(file, &others);
    CHECK(left.size() < payloads.size());
    size_t read = 0;
    for (size_t i = 0; i < left.size(); ++i) {
      CHECK(left[i] == payloads[i]);
      read += static_cast<size_t>(LedgerGroup::head_bytes) + left[i].size();
    }
    if (read == size)
      CHECK(others.empty());
    else
      CHECK(others == std::vector<Range>{{static_cast<int64_t>(read), static_cast<int64_t>(size)}});
  }
}

TEST_CASE("a bit flipped anywhere spoils its group and no other") {
  const ScratchFolder run;
  {
    Start start(run.path());
    start.begin(beginning());
    start.take(1, 3);
  }
  const std::string file = list_ledger(run.path()).at(0), whole = test::bytes_of(file);
  const std::vector<std::string> payloads = payloads_of(file);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
    test::write_bytes(file, flipped);
    std::vector<Range> others;
    CHECK(payloads_of(file, &others).size() == payloads.size() - 1);
    REQUIRE(others.size() == 1);
    CHECK(contains(others.front(), {static_cast<int64_t>(at), static_cast<int64_t>(at) + 1}));
  }
}

TEST_CASE("each start has a file of its own, and what was given up is written over") {
  const ScratchFolder run;
  const std::string group =
      encode_group({.kind = LedgerGroup::Kind::reads, .rank = 1, .stretch = 2, .payload = "payload"});
  {
    LedgerFile first(run.path());
    first.write(group);
    first.commit();
    first.write(group);
    first.write(group);
    first.give_up();
    LedgerFile second(run.path());
    second.write(group);
  }
  const std::vector<std::string> files = list_ledger(run.path());
  REQUIRE(files.size() == 2);
  CHECK(test::bytes_of(files[0]) == group);
  CHECK(std::filesystem::path(files[0]).filename() == "start-000001.bin");
  test::write_bytes(ledger_folder(run.path()) + "/start-000009.bin", "");
  test::write_bytes(ledger_folder(run.path()) + "/start-x.bin", "");
  const LedgerFile third(run.path());
  CHECK(std::filesystem::path(list_ledger(run.path()).back()).filename() == "start-000010.bin");
}

TEST_CASE("a run that reads what it should is exact, epoch by epoch") {
  const LedgerReport report = report_of({});
  CHECK(report.exact());
  CHECK(report.last_step == 10);
  REQUIRE(report.epochs.size() == 4);  // 20 windows of each lane
  for (const EpochBook::Epoch& epoch : report.epochs) {
    CHECK(epoch.complete);
    CHECK(epoch.exact());
    CHECK(epoch.read == 10);
  }
  const ScratchFolder run;
  Start start(run.path());
  start.begin(beginning());
  start.take(1, 4);
  const LedgerReport part = audit_ledger(run.path());
  CHECK(part.exact());
  REQUIRE(part.epochs.size() == 2);
  CHECK(!part.epochs[1].complete);
  CHECK(part.epochs[1].read == 6);
}

TEST_CASE("a window that is read twice is found, and so is the one that is not read") {
  const LedgerReport report = report_of([](int64_t rank, StepReads& reads) {
    if (rank == 1 && reads.step == 4) reads.reads[1] = reads.reads[0];
    return true;
  });
  CHECK(!report.exact());
  CHECK(report.doubled.count == 1);
  CHECK(report.lost.count == 1);
  CHECK(report.missing.count == 0);
  says(report.doubled.named.at(0), "by step 4");
  says(report.lost.named.at(0), "of shard 1 in epoch");
}

TEST_CASE("a record that is not there is found, and one that is there twice") {
  const LedgerReport without =
      report_of([](int64_t rank, const StepReads& reads) { return rank == 0 || reads.step != 6; });
  CHECK(without.missing.count == 2);
  CHECK(without.lost.count == 2);
  CHECK(without.doubled.count == 0);
  CHECK(without.missing.named == std::vector<std::string>{"step 6, sequence 2", "step 6, sequence 3"});

  const ScratchFolder run;
  Start start(run.path());
  start.begin(beginning());
  start.take(1, 5);
  start.take(2, 2);
  const LedgerReport twice = audit_ledger(run.path());
  CHECK(twice.doubled.count == 4);
  CHECK(twice.missing.count == 0);
}

TEST_CASE("a read from where no window of the sequence can be is found") {
  const std::vector<std::function<void(StepReads&)>> changes = {
      [](StepReads& reads) { ++reads.reads[0].token; },
      [](StepReads& reads) { reads.reads[0].shard = 1 - reads.reads[0].shard; },
      [](StepReads& reads) { reads.reads[0].token = 5 * 8; },
      [](StepReads& reads) { ++reads.cursor; },
      [](StepReads& reads) { ++reads.first_sequence; },
  };
  for (const auto& change : changes) {
    const LedgerReport report = report_of([&](int64_t rank, StepReads& reads) {
      if (rank == 1 && reads.step == 3) change(reads);
      return true;
    });
    CHECK(!report.exact());
    CHECK(report.misplaced.count == 1);
    CHECK(report.missing.count > 0);
    says(report.misplaced.named.at(0), "step 3");
  }
}

TEST_CASE("steps behind the checkpoint that a later start goes on from are counted out") {
  const ScratchFolder run;
  LedgerStretch stretch = beginning();
  {
    Start first(run.path());
    first.begin(stretch);
    first.take(1, 7);
  }
  {
    stretch = going_on(stretch, 5);  // on other ranks, with another batch
    stretch.ranks = 3;
    stretch.global_batch = 8;
    Start second(run.path());
    second.begin(stretch);
    second.take(6, 8);
  }
  stretch = going_on(stretch, 7);
  stretch.ranks = 1;
  stretch.global_batch = 2;
  {
    Start third(run.path());  // it comes to nothing
    third.begin(stretch);
  }
  Start fourth(run.path());
  fourth.begin(stretch);
  fourth.take(8, 12);
  const LedgerReport report = audit_ledger(run.path());
  CHECK(report.exact());
  CHECK(report.last_step == 12);
  CHECK(report.stretches == 4);
  CHECK(report.dropped_windows == 2 * 4 + 8);
  REQUIRE(report.epochs.size() == 5);  // 10 + 8 + 5 windows of each lane
  CHECK(report.epochs[4].read == 6);
}

TEST_CASE("records of a step that counts are missing where a later start goes on from behind them") {
  const ScratchFolder run;
  {
    Start first(run.path());
    first.begin(beginning());
    first.take(1, 4);
  }
  Start second(run.path());
  second.begin(going_on(beginning(), 5));
  second.take(6, 8);
  const LedgerReport report = audit_ledger(run.path());
  CHECK(report.missing.count == 4);
  says(report.missing.named.at(0), "step 5, sequence 0");
}

TEST_CASE("a rollback passes over windows that are listed, and must not be read after all") {
  for (const bool honest : {true, false}) {
    const ScratchFolder run;
    Start start(run.path());
    start.begin(beginning());
    start.take(1, 4);  // step 3 is bad, which is known after step 4
    LedgerStretch back = going_on(beginning(), 2);
    back.attempt = 1;
    back.branch = 1;
    back.skipped = {{4, 6}};
    start.begin(back);
    if (!honest) start.pass_over({});
    start.take(3, 9);
    const LedgerReport report = audit_ledger(run.path());
    CHECK(report.exact() == honest);
    CHECK(report.dropped_windows == 8);
    REQUIRE(report.skipped.size() == 1);
    CHECK(report.skipped[0].windows == 4);
    CHECK(report.skipped[0].steps == std::vector<int64_t>{3});
    REQUIRE(report.epochs.size() == 4);  // 18 windows of each lane, and 2 passed over
    CHECK(report.epochs[0].skipped == 2);
    CHECK(report.epochs[1].skipped == 2);
    CHECK(report.epochs[3].complete);
    if (honest) {
      CHECK(report.epochs[0].read == 8);
      CHECK(report.epochs[3].read == 10);
    } else {
      CHECK(report.doubled.count > 0);
      says(report.doubled.named.at(0), "to be passed over");
    }
  }
}

TEST_CASE("a branch is followed to where it left the other, and each can be asked for") {
  const ScratchFolder run;
  {
    Start trunk(run.path());
    trunk.begin(beginning());
    trunk.take(1, 8);
  }
  LedgerStretch stretch = going_on(beginning(), 3);
  stretch.branch = 1;
  {
    Start branch(run.path());
    branch.begin(stretch);
    branch.take(4, 6);
  }
  LedgerStretch again = going_on(stretch, 3);  // from the branch's own first checkpoint
  again.branch = 1;
  Start second(run.path());
  second.begin(again);
  second.take(4, 9);
  const LedgerReport newest = audit_ledger(run.path());
  CHECK(newest.exact());
  CHECK(newest.newest.branch == 1);
  CHECK(newest.last_step == 9);
  const LedgerReport trunk = audit_ledger(run.path(), 0);
  CHECK(trunk.exact());
  CHECK(trunk.last_step == 8);
  says(failure(ExitCode::usage, [&] { audit_ledger(run.path(), 2); }), "no records of branch 2");
}

TEST_CASE("another run in the same folder is another history") {
  const ScratchFolder run;
  {
    Start first(run.path());
    first.begin(beginning());
    first.take(1, 8);
  }
  LedgerStretch anew = beginning();
  anew.run_id = 8;
  anew.branch = 1;
  Start second(run.path());
  second.begin(anew);
  second.take(1, 5);
  const LedgerReport report = audit_ledger(run.path());
  CHECK(report.exact());
  CHECK(report.last_step == 5);
  CHECK(report.dropped_windows == 8 * 4);
}

TEST_CASE("a beginning that this folder does not have is a fault unless another folder has it") {
  for (const bool elsewhere : {false, true}) {
    const ScratchFolder run;
    LedgerStretch stretch = going_on(beginning(), 4);
    stretch.elsewhere = elsewhere;
    Start start(run.path());
    start.begin(stretch);
    start.take(5, 9);
    const LedgerReport report = audit_ledger(run.path());
    CHECK(report.exact() == elsewhere);
    CHECK(report.unknown_steps == 4);
    REQUIRE(report.epochs.size() == 3);  // windows 8 to 18 of each lane
    CHECK(report.epochs[0].number == 1);
    CHECK(!report.epochs[0].complete);
    CHECK(report.epochs[0].read == 4);
    CHECK(report.epochs[1].read == 10);
  }
}

TEST_CASE("a folder without records is refused") {
  const ScratchFolder run;
  says(failure(ExitCode::usage, [&] { audit_ledger(run.path()); }), "no records");
  std::filesystem::create_directory(ledger_folder(run.path()));
  test::write_bytes(ledger_folder(run.path()) + "/start-000001.bin", "torn");
  says(failure(ExitCode::damaged, [&] { audit_ledger(run.path()); }), "bytes 0 to 3");
}

TEST_CASE("an epoch's book counts places and windows, and empties itself when both are whole") {
  EpochBook book(2, 100, {{10, 20}});
  for (int64_t lane = 0; lane < 2; ++lane)
    for (int64_t place = 0; place < 100; ++place) {
      if (book.skips(place)) continue;
      CHECK(!book.has_place(lane, place));
      CHECK(book.add({.lane = lane, .place = place, .window = 99 - place}) == EpochBook::Verdict::first);
      CHECK(book.has_place(lane, place));
    }
  CHECK(book.add({.lane = 1, .place = 5, .window = 5}) == EpochBook::Verdict::again);
  CHECK(book.add({.lane = 1, .place = 15, .window = 84}) == EpochBook::Verdict::passed_over);
  CHECK(book.has_window(1, 5, 0));
  CHECK(!book.has_window(1, 5, 1));
  const std::vector<EpochBook::Epoch> epochs = book.epochs({0, 130});
  REQUIRE(epochs.size() == 2);
  CHECK(epochs[0].read == 180);
  CHECK(epochs[0].exact());
  CHECK(epochs[1].expected == 60);
  CHECK(epochs[1].read == 0);
}

TEST_CASE("what was repeated and left out is told from the log") {
  const ScratchFolder run;
  test::write_bytes(run / "log.jsonl", R"({"event":"start","attempt":1,"step":0}
{"event":"step","attempt":1,"step":1,"step_seconds":0.5}
{"event":"bad_step","attempt":1,"step":2,"action":"skip"}
{"event":"step","attempt":1,"step":3,"step_seconds":0.5}
{"event":"step","attempt":1,"step":4,"step_seconds":0.25}
{"event":"bad_step","attempt":1,"step":5,"action":"rollback"}
{"event":"rollback","attempt":1,"step":3,"branch":1}
{"event":"step","attempt":1,"step":4,"step_seconds":1}
{"event":"bad_step","attempt":1,"step":5,"action":"skip"}
{"event":"step","attempt":1,"st
{"event":"step"}
{"event":"start","attempt":2,"step":3}
{"event":"step","attempt":2,"step":4,"step_seconds":2}
)");
  const RunLosses losses = read_losses(run / "log.jsonl");
  CHECK(losses.starts == 2);
  CHECK(losses.steps == 3);
  CHECK(losses.seconds == 3.0);
  CHECK(losses.left_out == std::vector<int64_t>{2});
  REQUIRE(losses.lost.size() == 2);
  CHECK(losses.lost[0].rolled_back);
  CHECK(losses.lost[0].steps == 1);
  CHECK(losses.lost[0].seconds == 0.25);
  CHECK(!losses.lost[1].rolled_back);
  CHECK(losses.lost[1].attempt == 1);
  CHECK(losses.lost[1].seconds == 1.0);
  CHECK(read_losses(run / "none").starts == 0);
}

}  // namespace
}  // namespace gpt
