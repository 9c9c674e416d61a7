#pragma once

#include <cstdint>

namespace gpt {

/// Seconds of training between two checkpoints with which least time is lost, to them and to failures (Daly
/// 2006, "A higher order estimate of the optimum checkpoint interval for restart dumps", eq. 37; its first
/// term is Young's of 1974): √(2·C·M)·(1 + √(C/2M)/3 + C/18M) − C for C < 2M, else M.
/// @param cost  C, seconds that training loses to a checkpoint, above 0
/// @param mtbf  M, mean seconds between failures of the job, above 0
double daly_interval(double cost, double mtbf);

/// How often to save (`--save-every auto`), by what saves have cost so far.
///
/// What counts is by how much a save delays training, not how long it is under way: while it is written
/// beside training, work goes on (Vaidya 1997, "Impact of checkpoint latency on overhead ratio of a
/// checkpointing scheme": the best interval depends on the overhead, and not on the latency). So its cost is
/// the time for which training stood still, plus by how much steps beside it were longer than others.
class SaveInterval {
public:
  static constexpr double first = 60.0;   ///< seconds until the first save, which is there to be measured
  static constexpr double most = 3600.0;  ///< seconds: what a wrong --mtbf may cost

  /// @param mtbf  seconds
  explicit SaveInterval(double mtbf) : mtbf_(mtbf) {}

  /// A step took so many seconds. @param beside  a save was under way
  void took_step(double seconds, bool beside);

  /// A save succeeded. @param stall  seconds for which training stood still @param whole  seconds until it
  /// was read back
  void took_save(double stall, double whole);

  double mtbf() const { return mtbf_; }
  /// Of a save, as saves went lately; 0 before the first.
  double cost() const { return cost_; }

  /// Seconds from one save to the next, not less than one takes: a second one would have to wait for it.
  double seconds() const;

private:
  double mtbf_;
  double usual_step_ = 0.0;  // beside no save; 0: none yet
  double delay_ = 0.0;       // of steps beside the save under way
  double cost_ = 0.0;
  double longest_ = 0.0;
  int64_t saves_ = 0;
};

}  // namespace gpt
