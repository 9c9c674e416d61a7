#include "data/batch_reader.hpp"

#include "base/contracts.hpp"
#include "base/fault.hpp"
#include "base/thread.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

namespace gpt {

struct BatchReader::Impl {
  Impl(const Dataset& data, const Lanes& order, int64_t window, int64_t batch, Range part)
      : dataset(data), lanes(order), context(window), global_batch(batch), sequences(part) {}

  const Dataset& dataset;
  const Lanes lanes;
  const int64_t context;
  const int64_t global_batch;
  const Range sequences;
  HostBatch current;  // the caller's

  std::mutex mutex;
  std::condition_variable_any changed;
  std::optional<int64_t> requested;  // a cursor the thread has not begun with
  bool reading = false;
  std::optional<int64_t> ahead_cursor;  // of what `ahead` holds, or of what failed
  HostBatch ahead;                      // the thread's while `reading`
  std::exception_ptr failure;

  std::jthread thread;  // last: it stops and ends before what it uses

  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    while (changed.wait(lock, stop, [&] { return requested.has_value(); })) {
      const int64_t cursor = *std::exchange(requested, std::nullopt);
      reading = true;
      lock.unlock();
      std::exception_ptr thrown;
      try {
        fill(cursor);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      failure = thrown;
      ahead_cursor = cursor;
      reading = false;
      changed.notify_all();
    }
  }

  void fill(int64_t cursor) {
    check_file(file_point("data.read"), ExitCode::failed, "cannot read a batch");
    ahead.first_sequence = sequences.begin;
    ahead.count = sequences.size();
    ahead.reads.resize(static_cast<size_t>(ahead.count));
    ahead.inputs.resize(static_cast<size_t>(ahead.count * context));
    ahead.targets.resize(static_cast<size_t>(ahead.count * context));
    std::vector<Token> window(static_cast<size_t>(context + 1));
    for (int64_t i = 0; i < ahead.count; ++i) {
      const WindowId id = lanes.sequence(sequences.begin + i, global_batch, cursor);
      const int64_t token = dataset.read_window(Split::train, id.lane, id.index, window);
      ahead.reads[static_cast<size_t>(i)] = {.shard = id.lane, .token = token};
      std::copy_n(window.begin(), context, ahead.inputs.begin() + i * context);
      std::copy_n(window.begin() + 1, context, ahead.targets.begin() + i * context);
    }
  }
};

BatchReader::BatchReader(const Dataset& dataset, const Lanes& lanes, int64_t context, int64_t global_batch,
                         Range sequences)
    : impl_(std::make_unique<Impl>(dataset, lanes, context, global_batch, sequences)) {
  expects(context >= 1 && global_batch % lanes.lanes() == 0);
  expects(sequences.begin >= 0 && sequences.begin <= sequences.end && sequences.end <= global_batch);
  impl_->thread =
      start_thread("reading ahead", [impl = impl_.get()](std::stop_token stop) { impl->run(stop); });
}

BatchReader::~BatchReader() = default;

const HostBatch& BatchReader::next(int64_t cursor) {
  Impl& reader = *impl_;
  const auto idle = [&] { return !reader.reading && !reader.requested; };
  std::unique_lock lock(reader.mutex);
  reader.changed.wait(lock, idle);
  if (reader.ahead_cursor != cursor) {  // the first call, or the caller jumped
    reader.requested = cursor;
    reader.changed.notify_all();
    reader.changed.wait(lock, idle);
  }
  reader.ahead_cursor.reset();
  if (reader.failure) std::rethrow_exception(reader.failure);

  std::swap(reader.current, reader.ahead);
  reader.requested = cursor + reader.global_batch / reader.lanes.lanes();
  reader.changed.notify_all();
  return reader.current;
}

}  // namespace gpt
