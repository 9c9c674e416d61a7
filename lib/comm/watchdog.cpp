#include "comm/watchdog.hpp"

#include "base/error.hpp"
#include "base/notice.hpp"
#include "base/thread.hpp"
#include "comm/ending.hpp"
#include "comm/shared_error.hpp"
#include "comm/siblings.hpp"
#include "comm/texts.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <fmt/format.h>
#include <future>
#include <memory>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace gpt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto time_to_unwind = std::chrono::seconds(3);
constexpr double time_for_lower = 0.15;  // seconds that each lower rank has to speak first
constexpr double time_for_speaker =
    1.0;  // seconds that the lowest rank of a host has, before ranks are connected
constexpr int counted_lower = 4;
constexpr double unhurried = 1.0;  // seconds between two looks for faults

int exit_code_of(const std::exception& error) {
  const auto* own = dynamic_cast<const Error*>(&error);
  return static_cast<int>(own != nullptr ? own->code() : ExitCode::failed);
}

std::string own_host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// Writes the verdict. @return whether it is the first; also when the disk does not answer in time: what
/// hangs may be the disk, and the reason has to reach people all the same
bool is_first(const std::string& folder, const Verdict& verdict) try {
  constexpr auto patience = std::chrono::milliseconds(250);
  auto written = std::make_shared<std::promise<bool>>();
  std::future<bool> first = written->get_future();
  std::thread([=] { written->set_value(write_verdict(folder, verdict)); }).detach();
  return first.wait_for(patience) != std::future_status::ready || first.get();
} catch (const std::system_error&) {  // no more threads to be had
  return write_verdict(folder, verdict);
}

}  // namespace

Watchdog::Watchdog(std::string program, double timeout)
    : program_(std::move(program)),
      timeout_(timeout > 0 ? timeout : 0.0),
      rank_(launched_rank()),
      hosts_{own_host()} {
  thread_ = start_thread("the watchdog", [this](const std::stop_token& stop) { watch(stop); });
}

Watchdog::~Watchdog() { drop_exchange(); }

void Watchdog::connect(int rank, int size, const std::string& host) {
  if (!thread_.joinable()) return;
  std::vector<std::string> hosts;
  std::unique_ptr<StatusExchange> exchange;
  {
    const Waiting waiting(*this);
    hosts = gather_texts(host, MPI_COMM_WORLD);
    if (size > 1 && timeout_ > 0)
      exchange = std::make_unique<StatusExchange>(timeout_, [this] { return status(); });
  }
  const std::lock_guard lock(mutex_);
  rank_ = rank;
  size_ = size;
  hosts_ = std::move(hosts);
  exchange_ = std::move(exchange);
}

void Watchdog::disconnect() {
  if (exchange_) {
    const Waiting waiting(*this);
    check_mpi(MPI_Barrier(MPI_COMM_WORLD));
    exchange_->finish();
  }
  drop_exchange();
}

void Watchdog::drop_exchange() {
  std::unique_ptr<StatusExchange> ended;  // outlives the lock: its thread may take long to end
  const std::lock_guard lock(mutex_);
  ended = std::move(exchange_);
}

void Watchdog::set_folder(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  folder_ = folder;
}

void Watchdog::hear_of_hangs(ExitCode code, HearOfHang hear) {
  const std::lock_guard lock(mutex_);
  hearer_ = {.code = code, .hear = std::move(hear)};
}

Watchdog::Hearer Watchdog::hearer() const {
  const std::lock_guard lock(mutex_);
  return hearer_;
}

std::string Watchdog::folder() const {
  const std::lock_guard lock(mutex_);
  return folder_;
}

void Watchdog::look_after(std::function<std::optional<std::string>()> fault, std::function<void()> abort) {
  {
    const std::lock_guard charge(charge_mutex_);
    fault_ = std::move(fault);
    abort_ = std::move(abort);
  }
  const std::lock_guard lock(mutex_);
  has_charge_ = true;
  changed_.notify_all();
}

void Watchdog::look_away() {
  has_charge_ = false;
  const std::lock_guard charge(charge_mutex_);
  fault_ = nullptr;
  abort_ = nullptr;
}

std::optional<std::string> Watchdog::look_for_fault() {
  const std::lock_guard charge(charge_mutex_);
  return fault_ ? fault_() : std::nullopt;
}

void Watchdog::abort_charge() {
  const std::lock_guard charge(charge_mutex_);
  if (abort_) abort_();
}

void Watchdog::limit_unwinding(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    const Failure failure{.code = exit_code_of(error), .reason = error.what(), .at = Clock::now()};
    if (thread_.joinable()) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = failure;
      changed_.notify_all();
    }
    write_verdict(error);
    throw;
  }
}

void Watchdog::end_unwinding() {
  const std::lock_guard lock(mutex_);
  failure_.reset();
}

void Watchdog::write_verdict(const std::exception& error, const std::optional<RankStatus>& where) {
  const std::string folder = this->folder();
  if (folder.empty()) return;
  const auto* shared = size_ > 1 ? dynamic_cast<const SharedError*>(&error) : nullptr;
  const std::optional<int> rank = shared != nullptr ? shared->rank() : rank_;
  const RankStatus at = where.value_or(pulse_.status());
  gpt::write_verdict(folder, {.exit_code = exit_code_of(error),
                              .rank = rank,
                              .host = rank ? host_of(*rank) : "",
                              .step = at.step,
                              .phase = std::string(name_of(at.phase)),
                              .reason = error.what(),
                              .reporter = rank_});
}

std::string Watchdog::host_of(int rank) const {
  const auto index = static_cast<size_t>(rank);
  return index < hosts_.size() ? hosts_[index] : hosts_.front();
}

RankStatus Watchdog::status() const {
  RankStatus status = pulse_.status();
  status.quiet = quiet_;
  return status;
}

void Watchdog::watch(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "gpt-watchdog");
  const double period = timeout_ > 0 ? watch_period(timeout_) : unhurried;
  Clock::time_point before = Clock::now();
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (timeout_ > 0 || failure_ || has_charge_)
      changed_.wait_for(lock, stop, std::chrono::duration<double>(period), [] { return false; });
    else
      changed_.wait(lock, stop, [this] { return failure_.has_value() || has_charge_; });
    if (stop.stop_requested()) return;
    const Clock::time_point now = Clock::now();
    if (failure_ && now - failure_->at > time_to_unwind) {
      lock.unlock();
      end_failed();
    }
    if (has_charge_) {
      lock.unlock();
      if (const std::optional<std::string> fault = look_for_fault()) end_faulty(*fault);
      lock.lock();
    }
    // A longer pause is this process's own: it was stopped, or got no core.
    const double elapsed = std::chrono::duration<double>(now - before).count();
    before = now;
    if (timeout_ == 0) continue;
    if (const std::optional<Hang> hang = look_after_ticks(std::min(elapsed, 4 * period))) {
      lock.unlock();
      end_hung(*hang);
    }
  }
}

std::optional<Hang> Watchdog::look_after_ticks(double elapsed) {
  const uint64_t ticks = pulse_.ticks();
  quiet_ = ticks == seen_ticks_ ? quiet_ + elapsed : 0.0;
  seen_ticks_ = ticks;
  const bool sees_all = exchange_ && rank_ == 0 && exchange_->since_turn() < 1.0;
  return sees_all ? find_hang_as_root() : find_hang_alone();
}

std::optional<Hang> Watchdog::find_hang_as_root() const {
  return find_hang(0, exchange_->sightings(), hosts_, timeout_);
}

/// What a rank knows by itself: that it waits, and whether rank 0 answers.
std::optional<Hang> Watchdog::find_hang_alone() const {
  if (quiet_ < timeout_) return {};
  const bool has_contact = exchange_ && rank_ != 0 && exchange_->since_turn() < 1.0;
  return has_contact ? find_silent_root() : find_standstill();
}

std::optional<Hang> Watchdog::find_silent_root() const {
  const double silence = exchange_->since_asked();
  if (silence < std::max(silence_limit(timeout_), 3 * watch_period(timeout_)))
    return {};  // rank 0 sees more, and decides
  if (quiet_ < timeout_ + time_for_lower * std::min(rank_ - 1, counted_lower)) return {};
  const RankStatus at = status();
  return Hang{.rank = 0,
              .status = at,
              .reason = fmt::format("rank 0 on {} does not answer for {:.1f} s (stopped, dead or cut off); "
                                    "rank {} waits in {}",
                                    host_of(0), silence, rank_, describe(at))};
}

std::optional<Hang> Watchdog::find_standstill() const {
  const std::vector<Sibling> siblings = find_siblings();
  const bool speaks = std::ranges::none_of(
      siblings, [this](const Sibling& other) { return !other.stopped && other.rank < rank_; });
  if (!speaks && quiet_ < timeout_ + time_for_speaker) return {};
  const RankStatus at = status();
  std::string reason = fmt::format("rank {} on {} stands still in {} for {:.1f} s{}", rank_, host_of(rank_),
                                   describe(at), quiet_.load(), at.waiting ? ", waiting for others" : "");
  if (const std::string stopped = describe_stopped(siblings); !stopped.empty())
    reason += fmt::format("; on this host {}", stopped);
  // One that waits for others is not the one to blame.
  return Hang{.rank = at.waiting ? std::nullopt : std::optional(rank_), .status = at, .reason = reason};
}

void Watchdog::end_faulty(const std::string& fault) {
  const int code = static_cast<int>(ExitCode::rank_failed);
  end_job(code, [&] {
    notice(fmt::format("{}: rank {} on {}: {}", program_, rank_, host_of(rank_), fault));
    write_verdict(Error(fault, ExitCode::rank_failed));
    abort_charge();
  });
}

void Watchdog::end_hung(const Hang& hang) {
  const Hearer hearer = this->hearer();
  const int code = static_cast<int>(hearer.code);
  const std::string folder = this->folder();
  end_job(code, [&] {
    const bool first = folder.empty() || is_first(folder, {.exit_code = code,
                                                           .rank = hang.rank,
                                                           .host = hang.rank ? host_of(*hang.rank) : "",
                                                           .step = hang.status.step,
                                                           .phase = std::string(name_of(hang.status.phase)),
                                                           .reason = hang.reason,
                                                           .reporter = rank_});
    if (first)
      notice(fmt::format("{}: {}. The job ends after {:g} s without progress (--timeout)", program_,
                         hang.reason, timeout_));
    if (hearer.hear) hearer.hear(hang, hang.rank ? host_of(*hang.rank) : "");
    abort_charge();
  });
}

void Watchdog::end_failed() {
  const Failure failure = *failure_;
  end_job(failure.code, [&] {
    notice(
        fmt::format("{}: rank {} on {}: {} (ended in the middle: something that this error passed "
                    "through does not end by itself)",
                    program_, rank_, host_of(rank_), failure.reason));
    abort_charge();
  });
}

}  // namespace gpt
