#pragma once

#include "base/exit_code.hpp"
#include "comm/hang.hpp"
#include "comm/pulse.hpp"
#include "comm/status_exchange.hpp"
#include "comm/verdict.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gpt {

/// Ends the job when it stands still. The main thread says which phase it is in and gives a tick whenever
/// something got done; a thread that never calls anything that can hang looks after it.
///
/// Time in which this process itself stood still (a debugger, a suspended job) does not count.
class Watchdog {
public:
  /// One that watches nothing.
  Watchdog() = default;

  /// @param program  the name that leads its message
  /// @param timeout  seconds without a tick that end the job with exit code 10; 0: never
  Watchdog(std::string program, double timeout);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void enter(Phase phase, int64_t step) { pulse_.enter(phase, step); }
  void tick() { pulse_.tick(); }
  const Pulse& pulse() const { return pulse_; }

  /// While it lives, the main thread is in a call that ends only when other ranks do their part.
  class Waiting {
  public:
    explicit Waiting(Watchdog& watchdog, bool waits = true) : pulse_(watchdog.pulse_) { set(waits); }
    ~Waiting() { set(false); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

    /// Whether it is so just now: for a wait that sees what it waits for.
    void set(bool waits) {
      if (waits == waits_) return;
      waits_ = waits;
      if (waits)
        pulse_.begin_wait();
      else
        pulse_.end_wait();
    }

  private:
    Pulse& pulse_;
    bool waits_ = false;
  };

  /// From now on it knows of the other ranks: who waits for whom. Collective over the world.
  void connect(int rank, int size, const std::string& host);
  /// Before MPI ends. Collective.
  void disconnect();

  /// Where a verdict is written to: once this job holds the folder.
  void set_folder(const std::string& folder);

  /// @param host  of the rank to blame; empty: there is none
  using HearOfHang = std::function<void(const Hang& hang, const std::string& host)>;

  /// From now on a hang ends the job with `code`, and is told to `hear` too, beside standard error: for work
  /// whose outcome somebody else than a run folder keeps. `hear` is called from any thread, in rare cases on
  /// several ranks, and has half a second. The last call counts.
  void hear_of_hangs(ExitCode code, HearOfHang hear);

  /// From now on its thread also asks `fault`, every second or more often, what failed that no call reports:
  /// a sentence ends the job with exit code 10. Whenever it ends the job, it calls `abort`, so that what runs
  /// on a device stops too; that may hang. Both are called from its thread or one that it starts; one at a
  /// time is looked after.
  void look_after(std::function<std::optional<std::string>()> fault, std::function<void()> abort);
  /// No more. Returns when neither is being called.
  void look_away();

  /// Runs `body`, on any thread. An error that leaves it has a few seconds to reach main: what it unwinds may
  /// wait for a disk or for other ranks, and these wait for this rank.
  void limit_unwinding(const std::function<void()>& body);

  /// It has reached main, and all ranks hold it: they end in good order.
  void end_unwinding();

  /// Writes the verdict, if the folder is known and there is none: on the rank that had the error.
  /// @param where  the thread stands that had it; nothing: where the main one does
  void write_verdict(const std::exception& error, const std::optional<RankStatus>& where = {});

private:
  struct Failure {
    int code;
    std::string reason;
    std::chrono::steady_clock::time_point at;
  };
  /// Of hangs.
  struct Hearer {
    ExitCode code = ExitCode::rank_failed;
    HearOfHang hear;
  };

  void drop_exchange();
  void watch(const std::stop_token& stop);
  std::optional<Hang> look_after_ticks(double elapsed);
  std::optional<Hang> find_hang_as_root() const;
  std::optional<Hang> find_hang_alone() const;
  std::optional<Hang> find_silent_root() const;
  std::optional<Hang> find_standstill() const;
  std::optional<std::string> look_for_fault();
  void abort_charge();
  RankStatus status() const;
  [[noreturn]] void end_faulty(const std::string& fault);
  [[noreturn]] void end_hung(const Hang& hang);
  [[noreturn]] void end_failed();
  std::string folder() const;
  Hearer hearer() const;
  std::string host_of(int rank) const;

  Pulse pulse_;
  std::string program_;
  double timeout_ = 0.0;
  std::atomic<double> quiet_{0.0};
  uint64_t seen_ticks_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  int rank_ = 0, size_ = 1;
  std::vector<std::string> hosts_;
  std::string folder_;
  Hearer hearer_;
  std::optional<Failure> failure_;  // on its way to main
  std::unique_ptr<StatusExchange> exchange_;
  std::mutex charge_mutex_;                            // held while one of them is called
  std::function<std::optional<std::string>()> fault_;  // of what it looks after; empty: nothing
  std::function<void()> abort_;
  std::atomic<bool> has_charge_ = false;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace gpt
