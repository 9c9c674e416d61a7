#include "bench/timed_ops.hpp"

#include <fmt/format.h>
#include <initializer_list>

namespace gpt {
namespace {

/// Of operands: those that are not there have none.
double bytes_of(std::initializer_list<Tensor> operands) {
  double bytes = 0.0;
  for (const Tensor& operand : operands) bytes += static_cast<double>(operand.bytes());
  return bytes;
}

/// What an operation reads of a tensor before it writes it.
Tensor read_of(const Tensor& written, Write write) { return write == Write::accumulate ? written : Tensor{}; }

/// Of `rows` rows with a matrix of as many elements.
double product_flops(int64_t rows, int64_t elements) {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(elements);
}

/// Of `products` products between the T x T scores and the columns of a head, the causal half of them: 2 in
/// forward, 4 in backward. Scores that backward computes again are not counted: to keep them would do, too.
double attention_flops(const Tensor& y, int products) {
  const auto context = static_cast<double>(y.dim(1));
  return products * static_cast<double>(y.size()) * context;
}

Work products(double flops, DType operands, std::initializer_list<Tensor> tensors) {
  return {.limit = Limit::arithmetic, .flops = flops, .operands = operands, .bytes = bytes_of(tensors)};
}

std::string shaped(const char* operation, const Tensor& w) {
  return fmt::format("{} {} x {}", operation, w.columns(), w.rows());
}

}  // namespace

void TimedOps::embed(Tensor x, Tensor tokens, Tensor wte, Tensor wpe, int64_t first_position,
                     const Dropout& dropout, Queue& queue) {
  const auto rows = static_cast<double>(x.size() * size_of(wte.dtype()));
  times_.measure(
      [&] {
        return Operation{"embed", {.bytes = bytes_of({x, tokens}) + 2 * rows}};
      },
      queue, [&] { ops_.embed(x, tokens, wte, wpe, first_position, dropout, queue); });
}

void TimedOps::embed_backward(Tensor d_wte, Tensor d_wpe, Tensor dx, Tensor tokens, const Dropout& dropout,
                              Write wpe_write, Queue& queue) {
  times_.measure(
      [&] {
        return Operation{"embed backward",
                         {.bytes = bytes_of({tokens, dx, dx, dx, d_wpe, read_of(d_wpe, wpe_write)})}};
      },
      queue, [&] { ops_.embed_backward(d_wte, d_wpe, dx, tokens, dropout, wpe_write, queue); });
}

void TimedOps::add_norm(Tensor sum, Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor delta, Tensor weight,
                        Tensor bias, const Dropout& dropout, Queue& queue) {
  const double bytes = bytes_of({y, x, delta, delta ? sum : Tensor{}});
  times_.measure(
      [&] {
        return Operation{"add and norm", {.bytes = bytes}};
      },
      queue, [&] { ops_.add_norm(sum, y, mean, rstd, x, delta, weight, bias, dropout, queue); });
}

void TimedOps::add_norm_backward(Tensor dx, Tensor d_delta, Tensor d_weight, Tensor d_bias, Tensor dy,
                                 Tensor sum, Tensor mean, Tensor rstd, Tensor weight, const Dropout& dropout,
                                 Write dx_write, Write write, Queue& queue) {
  const double bytes = bytes_of({dx, read_of(dx, dx_write), d_delta, dy, sum});
  times_.measure(
      [&] {
        return Operation{"add and norm backward", {.bytes = bytes}};
      },
      queue,
      [&] {
        ops_.add_norm_backward(dx, d_delta, d_weight, d_bias, dy, sum, mean, rstd, weight, dropout, dx_write,
                               write, queue);
      });
}

void TimedOps::linear(Tensor y, Tensor pre, Tensor x, Tensor w, Tensor b, Activation activation,
                      Queue& queue) {
  times_.measure(
      [&] {
        return Operation{shaped("linear", w),
                         products(product_flops(x.rows(), w.size()), x.dtype(), {y, pre, x, w})};
      },
      queue, [&] { ops_.linear(y, pre, x, w, b, activation, queue); });
}

void TimedOps::activate(Tensor y, Tensor pre, Activation activation, Queue& queue) {
  times_.measure(
      [&] {
        return Operation{"activate", {.bytes = bytes_of({y, pre})}};
      },
      queue, [&] { ops_.activate(y, pre, activation, queue); });
}

void TimedOps::linear_backward_input(Tensor dx, Tensor dy, Tensor w, Tensor pre, Activation activation,
                                     Queue& queue) {
  times_.measure(
      [&] {
        return Operation{shaped("linear backward to input", w),
                         products(product_flops(dy.rows(), w.size()), dy.dtype(), {dx, dy, w, pre})};
      },
      queue, [&] { ops_.linear_backward_input(dx, dy, w, pre, activation, queue); });
}

void TimedOps::linear_backward_weight(Tensor dw, Tensor db, Tensor dy, Tensor x, Write write, Queue& queue) {
  times_.measure(
      [&] {
        return Operation{
            shaped("linear backward to weight", dw),
            products(product_flops(dy.rows(), dw.size()), dy.dtype(), {dw, read_of(dw, write), dy, x})};
      },
      queue, [&] { ops_.linear_backward_weight(dw, db, dy, x, write, queue); });
}

void TimedOps::attention(Tensor y, Tensor log_sum, Tensor qkv, int64_t heads, const Dropout& dropout,
                         Queue& queue) {
  times_.measure(
      [&] {
        return Operation{"attention", products(attention_flops(y, 2), qkv.dtype(), {y, qkv})};
      },
      queue, [&] { ops_.attention(y, log_sum, qkv, heads, dropout, queue); });
}

void TimedOps::attention_backward(Tensor dqkv, Tensor dy, Tensor y, Tensor qkv, Tensor log_sum, int64_t heads,
                                  const Dropout& dropout, Queue& queue) {
  times_.measure(
      [&] {
        return Operation{"attention backward",
                         products(attention_flops(y, 4), qkv.dtype(), {dqkv, dy, y, qkv})};
      },
      queue, [&] { ops_.attention_backward(dqkv, dy, y, qkv, log_sum, heads, dropout, queue); });
}

void TimedOps::attention_cached(Tensor y, Tensor keys, Tensor values, Tensor qkv, int64_t position,
                                int64_t heads, Queue& queue) {
  // Every key and value is used once: their bytes are the limit, not the products.
  const auto seen =
      static_cast<double>(y.dim(0) * (position + y.dim(1)) * y.columns() * size_of(keys.dtype()));
  times_.measure(
      [&] {
        return Operation{"attention cached", {.bytes = bytes_of({y, qkv}) + 2 * seen}};
      },
      queue, [&] { ops_.attention_cached(y, keys, values, qkv, position, heads, queue); });
}

void TimedOps::classifier(Tensor loss_sum, Tensor dx, Tensor dw, Tensor x, Tensor w, Tensor targets,
                          int64_t vocabulary, float scale, Write write, Queue& queue) {
  // Padded rows of w are this implementation's choice.
  const double flops = (dx ? 3 : 1) * product_flops(x.rows(), vocabulary * x.columns());
  times_.measure(
      [&] {
        return Operation{dx ? "classifier and its backward" : "classifier",
                         products(flops, x.dtype(), {dx, dw, read_of(dw, write), x, w})};
      },
      queue, [&] { ops_.classifier(loss_sum, dx, dw, x, w, targets, vocabulary, scale, write, queue); });
}

void TimedOps::add(Tensor sum, Tensor x, Queue& queue) {
  times_.measure(
      [&] {
        return Operation{"add", {.bytes = bytes_of({sum, sum, x})}};
      },
      queue, [&] { ops_.add(sum, x, queue); });
}

void TimedOps::sum_in_order(Tensor sum, Tensor terms, Queue& queue) {
  times_.measure(
      [&] {
        return Operation{"sum in order", {.bytes = bytes_of({terms})}};
      },
      queue, [&] { ops_.sum_in_order(sum, terms, queue); });
}

void TimedOps::square_sums(Tensor sums, Tensor g, Queue& queue) {
  times_.measure(
      [&] {
        return Operation{"sums of squares", {.bytes = bytes_of({g})}};
      },
      queue, [&] { ops_.square_sums(sums, g, queue); });
}

void TimedOps::clip_scale(Tensor scalars, Tensor sums, const StepLimits& limits, Queue& queue) {
  times_.measure(
      [&] {
        return Operation{"clip scale", {.bytes = bytes_of({sums})}};
      },
      queue, [&] { ops_.clip_scale(scalars, sums, limits, queue); });
}

void TimedOps::adamw(Tensor p, Tensor half, Tensor m, Tensor v, Tensor g, Tensor scalars,
                     const AdamWStep& step, Queue& queue) {
  times_.measure(
      [&] {
        return Operation{"AdamW",
                         {.limit = Limit::memory, .bytes = 2 * bytes_of({p, m, v}) + bytes_of({g, half})}};
      },
      queue, [&] { ops_.adamw(p, half, m, v, g, scalars, step, queue); });
}

void TimedOps::round(Tensor half, Tensor p, const WeightRounding& rounding, Queue& queue) {
  times_.measure(
      [&] {
        return Operation{"round", {.bytes = bytes_of({half, p})}};
      },
      queue, [&] { ops_.round(half, p, rounding, queue); });
}

void TimedOps::cast(Tensor dst, Tensor src, Queue& queue) {
  times_.measure(
      [&] {
        return Operation{"cast", {.bytes = bytes_of({dst, src})}};
      },
      queue, [&] { ops_.cast(dst, src, queue); });
}

}  // namespace gpt
