#pragma once

#include "base/mpi.hpp"
#include "comm/hang.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace gpt {

/// How the watchdogs of the ranks know of each other while MPI's other calls hang: a thread that never blocks
/// in MPI. Rank 0 asks every rank now and then (once a second; at thousands of ranks less often), and quickly
/// once a rank is late; ranks answer, and report by themselves when they are late. Messages of 40 bytes
/// between pairs of ranks, on a communicator of their own; between two looks the thread sleeps.
class StatusExchange {
public:
  /// Collective over the world.
  /// @param own  this rank's status now; called from the thread
  StatusExchange(double timeout, std::function<RankStatus()> own);

  /// Ends the thread. Not collective: without finish(), messages may be left.
  ~StatusExchange();
  StatusExchange(const StatusExchange&) = delete;
  StatusExchange& operator=(const StatusExchange&) = delete;

  /// What rank 0 knows of each rank now.
  std::vector<Sighting> sightings() const;
  /// On another rank: seconds since rank 0 asked last, or since the start.
  double since_asked() const;
  /// Seconds since the thread came round last: it may hang in MPI like everybody else.
  double since_turn() const;

  /// No message is under way afterwards. Collective, when all ranks are at their end.
  void finish();

private:
  using Clock = std::chrono::steady_clock;
  using Words = std::array<int64_t, 5>;

  struct Sending {
    MPI_Request request = MPI_REQUEST_NULL;
    Words words{};
  };
  /// Of one rank, on rank 0.
  struct Known {
    RankStatus status;
    bool heard = false;
    Clock::time_point received{};
    bool asked = false;
    Clock::time_point asked_at{};  // first question that is still open
  };

  void run(const std::stop_token& stop);
  void turn();
  void turn_of_root(Clock::time_point now);
  void turn_of_others(Clock::time_point now);
  bool receive(int tag, Words& words, int& source);
  bool send(Sending& sending, int to, int tag, const RankStatus& status);
  bool nothing_open() const;
  double asking_interval(bool late) const;

  const double timeout_;
  const std::function<RankStatus()> own_;
  CommHandle comm_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<Sending> sendings_;  // rank 0: a question to each rank; others: answer and report
  Clock::time_point last_sent_{};  // of questions, or of a report

  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::vector<Known> known_;
  std::atomic<Clock::time_point> last_turn_{Clock::now()}, asked_{Clock::now()};
  std::atomic<bool> finishing_ = false;
  bool settled_ = false;  // rank 0 has no question open and asks none
  std::jthread thread_;   // last: it uses the others
};

}  // namespace gpt
