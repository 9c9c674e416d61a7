#pragma once

#include <string>

namespace gpt {

/// From now on SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 do not end the process, but ask it to stop at the next
/// good place: stop_signal(). The second SIGTERM or SIGINT ends it at once, with its last words; a SIGUSR may
/// be followed by one that is only a request again, as batch systems do it. Signals that were ignored stay
/// so. Once a process; from the first line of main.
void take_stop_requests();

/// The first signal that asked; 0: none. Costs one load.
int stop_signal();

/// "SIGTERM"
std::string signal_name(int number);

/// There will be no good place: from now on signals end the process at once, and one that has asked does.
void refuse_stop_requests();

/// From now on SIGTERM and SIGINT end the process at once where that file exists: the job is being ended for
/// what it says, and nobody asks to stop. Once a process.
void end_at_once_where(std::string told);

/// Gives the calling thread a stack of its own for signal handlers, once: compiled kernels of libraries may
/// use the stack pointer for something else.
void use_signal_stack();

/// What is written to standard error before SIGINT or SIGTERM ends the process. A standard error that takes
/// nothing now gets nothing. Once a process.
/// @param told  a file; where it exists, somebody has said why already, and nothing more is said
void say_before_signals_end_it(std::string line, std::string told);

/// The ranks have agreed to stop: what AnswerToStop holds is written where SIGTERM has asked this process.
/// Not before, since launchers send that one, too, to end a job that has lost a rank.
void answer_to_sigterm();

/// While it lives, a line is written to standard error when a signal asks to stop: at once, but after SIGTERM
/// by answer_to_sigterm(). One at a time.
class AnswerToStop {
public:
  /// @param line  empty: none
  /// @param told  a file; where it exists, the job is being ended for what it says, and no signal asks
  /// anything
  AnswerToStop(const std::string& line, const std::string& told);
  ~AnswerToStop();
  AnswerToStop(const AnswerToStop&) = delete;
  AnswerToStop& operator=(const AnswerToStop&) = delete;
};

}  // namespace gpt
