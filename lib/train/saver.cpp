#include "train/saver.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/stopwatch.hpp"
#include "base/thread.hpp"
#include "train/save_files.hpp"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace gpt {

struct Saver::Shared {
  enum class State { idle, working, ended, over };

  Shared(const World& main, std::unique_ptr<World> duplicate, SaveSettings given, const Layout& map,
         SavedParts copies, std::unique_ptr<NodeSaver> node)
      : world(main),
        beside(std::move(duplicate)),
        settings(std::move(given)),
        layout(map),
        parts(std::move(copies)),
        memory(std::move(node)) {}

  const World& world;
  const std::unique_ptr<World> beside;
  const SaveSettings settings;
  const Layout layout;
  SavedParts parts;
  const std::unique_ptr<NodeSaver> memory;
  CheckpointHeader header;  // of the save under way, as the next two
  SavePlaces places;
  std::function<void()> confirm;

  mutable std::mutex mutex;
  std::condition_variable changed;
  State state = State::idle;
  SaveEnd end;
  std::exception_ptr failure;  // of the only rank
  std::jthread thread;

  void work();
  SaveEnd save();
  void save_to_disk(SaveEnd& end);
  uint64_t signs_of_life() const;
  bool waits() const;
  void retire(SaveEnd& end) const;
  void move_to(State next);
};

void Saver::Shared::move_to(State next) {
  const std::lock_guard lock(mutex);
  state = next;
  changed.notify_all();
}

void Saver::Shared::work() {
  for (;;) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return state == State::working || state == State::over; });
      if (state == State::over) return;
    }
    try {
      end = save();
    } catch (const std::exception& error) {
      // The others may wait for this rank in a collective call, and its main thread for them.
      if (world.size() > 1) world.fail(error, beside->watchdog().pulse().status());
      failure = std::current_exception();
    }
    move_to(State::ended);
  }
}

SaveEnd Saver::Shared::save() {
  const FaultStep step(header.step);
  beside->watchdog().enter(Phase::save, header.step);
  SaveEnd result;
  result.step = header.step;
  result.places = places;
  result.file = settings.folder + "/" + checkpoint_name(header.step);
  try {
    if (settings.ledger) settings.ledger->flush(*beside);
  } catch (const SharedError& error) {
    result.failure = result.memory.failure = error.what();
    result.rank = error.rank();
    return result;
  }
  if (places.memory) result.memory = memory->save(header);
  if (places.disk) save_to_disk(result);
  return result;
}

void Saver::Shared::save_to_disk(SaveEnd& result) {
  parts.wait();
  const Stopwatch watch;
  try {
    save_checkpoint(settings.folder, header, layout, parts.state(), *beside, confirm);
  } catch (const SharedError& error) {
    result.failure = error.what();
    result.rank = error.rank();
    return;
  }
  result.seconds = watch.seconds();
  retire(result);
}

/// Of the thread, in whichever World it is at work.
uint64_t Saver::Shared::signs_of_life() const {
  return beside->watchdog().pulse().ticks() + (memory ? memory->pulse().ticks() : 0);
}

bool Saver::Shared::waits() const {
  return beside->watchdog().pulse().status().waiting || (memory && memory->pulse().status().waiting);
}

/// Older checkpoints go when the new one is known to be good.
void Saver::Shared::retire(SaveEnd& result) const {
  const Stopwatch watch;
  try {
    if (settings.verify) {
      std::vector<std::string> names;
      for (const StateTensor& tensor : parts.state()) names.push_back(tensor.name);
      verify_saved(result.file, layout, names, *beside);
      result.verifying = watch.seconds();
    }
  } catch (const SharedError& error) {
    result.failure = fmt::format("what was saved is not what the disk holds: {}", error.what());
    result.rank = error.rank();
    // No start and no rollback may choose it, and no retention count it.
    if (beside->is_root()) try {
        set_aside(result.file);
      } catch (const Error& stays) {
        result.notice = stays.what();
      }
    return;
  }
  if (!beside->is_root()) return;
  try {
    fault_point("save.retire");
    confirm();
    retire_checkpoints(settings.folder, header.run_id, header.branch,
                       {.newest = settings.keep, .every = settings.keep_every});
  } catch (const Error& error) {
    result.notice = error.what();  // a file too many is no reason to stop
  }
}

Saver::Saver(const World& world, std::unique_ptr<World> beside, SaveSettings settings, const Layout& layout,
             SavedParts parts, std::unique_ptr<NodeSaver> memory)
    : shared_(std::make_unique<Shared>(world, std::move(beside), std::move(settings), layout,
                                       std::move(parts), std::move(memory))) {
  Shared& shared = *shared_;
  shared.thread = start_thread("saving", [&shared] { shared.work(); });
}

Saver::~Saver() {
  // The thread may wait for ranks that never answer; alone it comes to its end.
  if (std::uncaught_exceptions() > 0 && shared_->world.size() > 1 && under_way() && !has_ended()) {
    shared_->thread.detach();
    shared_.release();
    return;
  }
  {
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait(lock, [&] { return shared_->state != Shared::State::working; });
  }
  shared_->move_to(Shared::State::over);
  shared_->thread.join();
}

void Saver::begin(const CheckpointHeader& header, const std::vector<DeviceState>& states, Queue& compute,
                  SavePlaces places, std::function<void()> confirm) {
  expects(!under_way() && (places.disk || places.memory) && (!places.memory || shared_->memory));
  fault_point("save.copy");
  shared_->header = header;
  shared_->places = places;
  shared_->confirm = std::move(confirm);
  if (places.memory) shared_->memory->take(states, compute);
  if (places.disk) shared_->parts.take(states, compute);
  shared_->move_to(Shared::State::working);
}

void Saver::protect(Queue& compute) {
  if (shared_->places.memory) shared_->memory->protect(compute);
  if (shared_->places.disk) shared_->parts.protect(compute);
}

bool Saver::under_way() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->state != Shared::State::idle;
}

int64_t Saver::step() const { return shared_->header.step; }

bool Saver::has_ended() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->state == Shared::State::ended;
}

SaveEnd Saver::wait() {
  expects(under_way());
  constexpr std::chrono::milliseconds glance(20);
  Watchdog& watchdog = shared_->world.watchdog();
  Watchdog::Waiting waiting(watchdog, false);  // while the other thread waits for other ranks
  uint64_t seen = shared_->signs_of_life();
  {
    std::unique_lock lock(shared_->mutex);
    while (!shared_->changed.wait_for(lock, glance, [&] { return shared_->state == Shared::State::ended; })) {
      if (const uint64_t now = shared_->signs_of_life(); std::exchange(seen, now) != now) watchdog.tick();
      waiting.set(shared_->waits());
    }
    shared_->state = Shared::State::idle;
  }
  if (shared_->failure) std::rethrow_exception(std::exchange(shared_->failure, nullptr));
  return std::move(shared_->end);
}

}  // namespace gpt
