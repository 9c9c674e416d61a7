#pragma once

namespace standin {

/// Starts, once, the thread that
/// - ends the program when a kernel runs for longer than the time limit;
/// - runs what streams hold when the program has called nothing for a while, since a device goes on by
/// itself. Only
///   once `others_wait`: then other processes or host functions may depend on it.
void work_in_background(bool others_wait);

/// Marks when a kernel runs, for the time limit.
class KernelTime {
public:
  KernelTime();
  ~KernelTime();
};

}  // namespace standin
