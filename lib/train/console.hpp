#pragma once

#include <string>

namespace gpt {

/// What a person reads on standard output: lines that stay, and on a terminal one line that moves. Silent on
/// every rank but the root. Never throws: a full disk behind a log must not end training.
class Console {
public:
  explicit Console(bool speaks);
  ~Console();  ///< nothing is glued to a bar that was left
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  bool has_terminal() const { return terminal_; }

  /// A line that stays.
  void say(const std::string& line);

  /// Replaces the line that moves, cut to the terminal's width; only with a terminal. ASCII.
  void move(const std::string& line);

private:
  void write(const std::string& text);

  bool speaks_;
  bool terminal_;
  bool moving_ = false;
};

}  // namespace gpt
