#include "comm/status_exchange.hpp"

#include "base/error.hpp"
#include "base/notice.hpp"
#include "base/thread.hpp"
#include "comm/messages.hpp"

#include <algorithm>
#include <pthread.h>
#include <utility>

namespace gpt {
namespace {

constexpr int question_tag = 1;
constexpr int status_tag = 2;
constexpr double asking_cost = 1e-3;  // seconds of rank 0 that a question and its answer may take, at most

std::array<int64_t, 5> to_words(const RankStatus& status) {
  return {status.entered, static_cast<int64_t>(status.phase), status.step, status.waiting ? 1 : 0,
          static_cast<int64_t>(status.quiet * 1e6)};
}

RankStatus from_words(const std::array<int64_t, 5>& words) {
  return {.entered = words[0],
          .phase = static_cast<Phase>(words[1]),
          .step = words[2],
          .waiting = words[3] != 0,
          .quiet = static_cast<double>(words[4]) * 1e-6};
}

double seconds_between(std::chrono::steady_clock::time_point from,
                       std::chrono::steady_clock::time_point until) {
  return std::chrono::duration<double>(until - from).count();
}

std::chrono::duration<double> in_seconds(double seconds) { return std::chrono::duration<double>(seconds); }

}  // namespace

StatusExchange::StatusExchange(double timeout, std::function<RankStatus()> own)
    : timeout_(timeout), own_(std::move(own)), comm_(duplicate(MPI_COMM_WORLD)) {
  check_mpi(MPI_Comm_rank(comm_.get(), &rank_));
  check_mpi(MPI_Comm_size(comm_.get(), &size_));
  sendings_.resize(rank_ == 0 ? static_cast<size_t>(size_) : 2);
  if (rank_ == 0) known_.resize(static_cast<size_t>(size_));
  thread_ = start_thread("watching the other ranks", [this](const std::stop_token& stop) { run(stop); });
}

StatusExchange::~StatusExchange() {
  thread_ = {};
  if (!finishing_) comm_.release();  // freeing is collective, and the others may be gone
}

std::vector<Sighting> StatusExchange::sightings() const {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  std::vector<Sighting> sightings;
  for (const Known& known : known_)
    sightings.push_back({.status = known.status,
                         .heard = known.heard,
                         .age = known.heard ? seconds_between(known.received, now) : 0.0,
                         .unanswered = known.asked ? seconds_between(known.asked_at, now) : 0.0});
  if (!sightings.empty()) sightings.front() = {.status = own_(), .heard = true};
  return sightings;
}

double StatusExchange::since_asked() const { return seconds_between(asked_, Clock::now()); }
double StatusExchange::since_turn() const { return seconds_between(last_turn_, Clock::now()); }

double StatusExchange::asking_interval(bool late) const {
  const double wanted = late ? std::clamp(timeout_ / 20, 0.02, 0.25) : std::clamp(timeout_ / 8, 0.1, 1.0);
  return std::max(wanted, static_cast<double>(size_) * asking_cost);
}

void StatusExchange::finish() {
  {
    std::unique_lock lock(mutex_);
    finishing_ = true;
    wake_.notify_all();
    wake_.wait(lock, [this] { return rank_ != 0 || settled_; });
  }
  check_mpi(MPI_Barrier(comm_.get()));
  thread_ = {};
  // Sent before the barrier, so they are here.
  Words words;
  int source = 0;
  while (receive(rank_ == 0 ? status_tag : question_tag, words, source)) {
  }
  for (Sending& sending : sendings_) check_mpi(MPI_Wait(&sending.request, MPI_STATUS_IGNORE));
  comm_.reset();
}

bool StatusExchange::nothing_open() const { return std::ranges::none_of(known_, &Known::asked); }

void StatusExchange::run(const std::stop_token& stop) try {
  pthread_setname_np(pthread_self(), "gpt-status");
  while (!stop.stop_requested()) {
    turn();
    last_turn_ = Clock::now();
    std::unique_lock lock(mutex_);
    const bool finishing = finishing_;
    wake_.wait_for(lock, stop, in_seconds(finishing ? 1e-3 : watch_period(timeout_)),
                   [&] { return finishing_ != finishing; });
  }
} catch (const std::exception& error) {
  // The watchdog goes on with what this rank knows by itself; the main thread will meet the same failure.
  notice(fmt::format("the watchdog has lost contact to other ranks: {}", error.what()));
}

void StatusExchange::turn() {
  const Clock::time_point now = Clock::now();
  if (rank_ == 0)
    turn_of_root(now);
  else
    turn_of_others(now);
}

void StatusExchange::turn_of_root(Clock::time_point now) {
  const double late = timeout_ - std::min(timeout_ / 2, 10.0);
  bool anyone_late = own_().quiet >= late;
  Words words;
  for (int source = 0; receive(status_tag, words, source);) {
    const std::lock_guard lock(mutex_);
    known_[static_cast<size_t>(source)] = {
        .status = from_words(words), .heard = true, .received = now, .asked = false, .asked_at = {}};
  }
  {
    const std::lock_guard lock(mutex_);
    anyone_late |= std::ranges::any_of(
        known_, [&](const Known& known) { return known.asked || known.status.quiet >= late; });
    settled_ = finishing_ && nothing_open();
    if (settled_) wake_.notify_all();
  }
  if (finishing_ || seconds_between(last_sent_, now) < asking_interval(anyone_late)) return;
  last_sent_ = now;
  for (int rank = 1; rank < size_; ++rank) {
    send(sendings_[static_cast<size_t>(rank)], rank, question_tag, {});
    const std::lock_guard lock(mutex_);
    Known& known = known_[static_cast<size_t>(rank)];
    if (!std::exchange(known.asked, true)) known.asked_at = now;
  }
}

void StatusExchange::turn_of_others(Clock::time_point now) {
  const RankStatus status = own_();
  Words words;
  for (int source = 0; receive(question_tag, words, source);) {
    asked_ = now;
    send(sendings_[0], 0, status_tag, status);
  }
  const double late = timeout_ - std::min(timeout_ / 2, 10.0);
  if (finishing_ || status.quiet < late || seconds_between(last_sent_, now) < asking_interval(true)) return;
  last_sent_ = now;
  send(sendings_[1], 0, status_tag, status);
}

bool StatusExchange::receive(int tag, Words& words, int& source) {
  int there = 0;
  MPI_Status status;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_.get(), &there, &status));
  if (there == 0) return false;
  source = status.MPI_SOURCE;
  check_mpi(MPI_Recv(words.data(), static_cast<int>(words.size()), MPI_INT64_T, source, tag, comm_.get(),
                     MPI_STATUS_IGNORE));
  return true;
}

/// False while an earlier message to that rank is still under way: one that does not take it gets no more.
bool StatusExchange::send(Sending& sending, int to, int tag, const RankStatus& status) {
  int done = 0;
  check_mpi(MPI_Test(&sending.request, &done, MPI_STATUS_IGNORE));
  if (done == 0) return false;
  sending.words = to_words(status);
  check_mpi(MPI_Isend(sending.words.data(), static_cast<int>(sending.words.size()), MPI_INT64_T, to, tag,
                      comm_.get(), &sending.request));
  return true;
}

}  // namespace gpt
