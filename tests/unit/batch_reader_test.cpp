#include "data/batch_reader.hpp"

#include "support/scratch_folder.hpp"
#include "unit/small_dataset.hpp"

#include <chrono>
#include <doctest/doctest.h>
#include <filesystem>
#include <thread>

using namespace gpt;
using gpt::test::counting;
using gpt::test::error_of;
using gpt::test::says;

namespace {

constexpr int64_t context = 8;
constexpr int64_t batch = 6;

/// 3 shards of 10 windows and 5 tokens more.
struct Example {
  test::ScratchFolder folder;
  Dataset dataset;
  Lanes lanes;

  Example() : dataset(write(folder.path())), lanes(3, dataset.windows_per_shard(Split::train, context), 4) {
    dataset.open(Split::train, {0, 3});
  }
  static std::string write(const std::string& path) {
    test::write_dataset(path, counting(3 * 85, 300), 3, 300);
    return path;
  }
};

void check_batch(const Example& example, const HostBatch& got, int64_t cursor, Range sequences) {
  CHECK(got.first_sequence == sequences.begin);
  REQUIRE(got.count == sequences.size());
  REQUIRE(got.reads.size() == static_cast<size_t>(got.count));
  REQUIRE(got.inputs.size() == static_cast<size_t>(got.count * context));
  REQUIRE(got.targets.size() == got.inputs.size());
  for (int64_t i = 0; i < got.count; ++i) {
    const WindowId id = example.lanes.sequence(sequences.begin + i, batch, cursor);
    CHECK(got.reads[static_cast<size_t>(i)] == WindowRead{id.lane, id.index * context});
    for (int64_t t = 0; t < context; ++t) {
      const auto at = static_cast<size_t>(i * context + t);
      const int64_t input = id.lane * 85 + id.index * context + t;  // the value of a token is its place
      CHECK(got.inputs[at] == input);
      CHECK(got.targets[at] == input + 1);
    }
  }
}

}  // namespace

TEST_CASE("batches hold the windows of their cursor, in order, over epochs and after jumps") {
  const Example example;
  for (const Range sequences : {Range{0, 6}, Range{2, 5}, Range{5, 6}, Range{3, 3}}) {
    BatchReader reader(example.dataset, example.lanes, context, batch, sequences);
    for (int64_t step = 0; step < 12; ++step)
      check_batch(example, reader.next(step * 2), step * 2, sequences);
    check_batch(example, reader.next(1), 1, sequences);
    check_batch(example, reader.next(1), 1, sequences);
    check_batch(example, reader.next(100), 100, sequences);
    check_batch(example, reader.next(102), 102, sequences);
  }
}

TEST_CASE("a batch stays valid while the next one is read") {
  const Example example;
  BatchReader reader(example.dataset, example.lanes, context, batch, {0, 6});
  for (int repeat = 0; repeat < 50; ++repeat) {
    const HostBatch& held = reader.next(2 * repeat);
    const HostBatch copy = held;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    CHECK(copy.inputs == held.inputs);
    CHECK(copy.reads == held.reads);
  }
}

TEST_CASE("what reading throws comes out of next, for the batch it belongs to, and the reader goes on") {
  const Example example;
  test::damage(example.folder / "train-00001-of-00003.h5", "/tokens", 2 * 40,
               "\xFF\x7F");  // in window 4 or 5
  BatchReader reader(example.dataset, example.lanes, context, batch, {0, 6});
  int failures = 0;
  for (int64_t step = 0; step < 5; ++step) {
    bool hit = false;
    for (int64_t sequence = 0; sequence < batch; ++sequence) {
      const WindowId id = example.lanes.sequence(sequence, batch, step * 2);
      hit = hit || (id.lane == 1 && (id.index == 4 || id.index == 5));
    }
    if (hit) {
      const Error error = error_of([&] { reader.next(step * 2); });
      CHECK(error.code() == ExitCode::damaged);
      CHECK(says(error, "train-00001-of-00003.h5"));
      CHECK(says(error, "token 32767 at offset 40"));
      ++failures;
    } else {
      check_batch(example, reader.next(step * 2), step * 2, {0, 6});
    }
  }
  CHECK(failures >= 1);
}

TEST_CASE("a reader ends at any time, also unused and with a batch unread or failed") {
  const Example example;
  for (int repeat = 0; repeat < 50; ++repeat) {
    BatchReader reader(example.dataset, example.lanes, context, batch, {0, 6});
    if (repeat % 2 == 0) reader.next(repeat);
  }
  std::filesystem::resize_file(example.folder / "train-00000-of-00003.h5", 100);
  BatchReader reader(example.dataset, example.lanes, context, batch, {0, 2});
  CHECK(error_of([&] { reader.next(0); }).code() == ExitCode::damaged);
  CHECK(error_of([&] { reader.next(0); }).code() == ExitCode::damaged);
}
