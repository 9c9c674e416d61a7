#include "cuda_test.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <random>

namespace gpt {
namespace {

using test::cuda;
using test::Stream;

void lt(cublasStatus_t status) {
  CAPTURE(cublasLtGetStatusName(status));
  REQUIRE(status == CUBLAS_STATUS_SUCCESS);
}

/// Numbers in device memory, of either type.
class Matrix {
public:
  Matrix(cudaDataType type, size_t count) : type_(type), count_(count), memory_(count * bytes()) {}
  Matrix(cudaDataType type, const std::vector<double>& values) : Matrix(type, values.size()) {
    std::vector<char> raw(count_ * bytes());
    for (size_t i = 0; i < count_; ++i) {
      const auto single = float(values[i]);
      const __nv_bfloat16 half = __float2bfloat16_rn(single);
      std::memcpy(raw.data() + i * bytes(), type == CUDA_R_32F ? static_cast<const void*>(&single) : &half,
                  bytes());
    }
    cuda(cudaMemcpy(memory_.get(), raw.data(), raw.size(), cudaMemcpyHostToDevice));
  }
  char* get() const { return memory_.get(); }
  std::vector<double> host() const {
    const std::vector<char> raw = memory_.host();
    std::vector<double> values;
    for (size_t i = 0; i < count_; ++i) {
      float single = 0;
      __nv_bfloat16 half;
      std::memcpy(type_ == CUDA_R_32F ? static_cast<void*>(&single) : &half, raw.data() + i * bytes(),
                  bytes());
      values.push_back(double(type_ == CUDA_R_32F ? single : __bfloat162float(half)));
    }
    return values;
  }

private:
  size_t bytes() const { return type_ == CUDA_R_32F ? 4 : 2; }

  cudaDataType type_;
  size_t count_;
  test::DeviceArray<char> memory_;
};

/// What a case asks for.
struct Case {
  int64_t m, n, k;
  bool trans_a, trans_b;
  cudaDataType input = CUDA_R_32F, output = CUDA_R_32F;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  float alpha = 1, beta = 0;
  int batch = 1;
  bool row_order = false;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
};

std::vector<double> random_values(size_t count, cudaDataType type) {
  static std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  std::vector<double> values(count);
  for (double& value : values) {
    const float single = normal(generator);
    value = double(type == CUDA_R_32F ? single : __bfloat162float(__float2bfloat16_rn(single)));
  }
  return values;
}

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double gelu_slope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

/// A matrix product through the interface, in descriptors that end with it.
class Call {
public:
  explicit Call(const Case& c) : c_(c) {
    lt(cublasLtCreate(&handle));
    lt(cublasLtMatmulDescCreate(&desc, c.compute, CUDA_R_32F));
    const cublasOperation_t a = c.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                            b = c.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, a);
    set(CUBLASLT_MATMUL_DESC_TRANSB, b);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, c.epilogue);
    a_layout = layout(c.input, c.trans_a ? c.k : c.m, c.trans_a ? c.m : c.k);
    b_layout = layout(c.input, c.trans_b ? c.n : c.k, c.trans_b ? c.k : c.n);
    d_layout = layout(c.output, c.m, c.n);
    lt(cublasLtMatmulPreferenceCreate(&preference));
    lt(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                            &workspace_bytes, sizeof workspace_bytes));
  }
  ~Call() {
    for (cublasLtMatrixLayout_t each : {a_layout, b_layout, d_layout}) cublasLtMatrixLayoutDestroy(each);
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatmulDescDestroy(desc);
    cublasLtDestroy(handle);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    lt(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value));
  }
  void require_alignment(uint32_t bytes) {
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      lt(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &bytes, sizeof bytes));
  }
  cublasStatus_t choose() {
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, desc, a_layout, b_layout, d_layout,
                                                                 d_layout, preference, 1, &choice, &found);
    CHECK((found == 1) == (status == CUBLAS_STATUS_SUCCESS));
    return status;
  }
  cublasStatus_t run(const void* a, const void* b, void* d, void* workspace, cudaStream_t stream) const {
    return cublasLtMatmul(handle, desc, &c_.alpha, a, a_layout, b, b_layout, &c_.beta, d, d_layout, d,
                          d_layout, &choice.algo, workspace, choice.workspaceSize, stream);
  }

  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a_layout = nullptr, b_layout = nullptr, d_layout = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulHeuristicResult_t choice{};
  uint64_t workspace_bytes = 4096;

private:
  cublasLtMatrixLayout_t layout(cudaDataType type, int64_t rows, int64_t cols) const {
    cublasLtMatrixLayout_t made = nullptr;
    lt(cublasLtMatrixLayoutCreate(&made, type, uint64_t(rows), uint64_t(cols), c_.row_order ? cols : rows));
    const int32_t order = c_.row_order ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
    const int64_t stride = rows * cols;
    lt(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order));
    lt(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &c_.batch,
                                        sizeof c_.batch));
    lt(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                        sizeof stride));
    return made;
  }

  const Case& c_;
};

void check_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::isnan(got[i]) ? 1e9 : std::abs(got[i] - want[i]) / (1 + std::abs(want[i])));
  CHECK(worst < tolerance);
}

/// Element (row, col) of matrix `batch` of a layout of `rows` × `cols`.
size_t at(const Case& c, int64_t rows, int64_t cols, int64_t batch, int64_t row, int64_t col) {
  return size_t(batch * rows * cols + (c.row_order ? row * cols + col : row + col * rows));
}

void check_against_loops(const Case& c) {
  CAPTURE(c.m);
  CAPTURE(c.n);
  CAPTURE(c.k);
  CAPTURE(int(c.epilogue));
  const bool has_aux = (c.epilogue & 128) != 0, is_dgelu = (c.epilogue & 64) != 0;
  const int64_t aux_ld = (c.m + 7) / 8 * 8;
  const std::vector<double> a = random_values(size_t(c.batch * c.m * c.k), c.input),
                            b = random_values(size_t(c.batch * c.n * c.k), c.input),
                            before = random_values(size_t(c.batch * c.m * c.n), c.output),
                            bias = random_values(size_t(std::max(c.m, c.n)), c.output),
                            aux = random_values(size_t(aux_ld * c.n), c.output);
  std::vector<double> want = before, want_aux = aux, row_sums(size_t(c.m), 0.0);
  for (int64_t z = 0; z < c.batch; ++z)
    for (int64_t j = 0; j < c.n; ++j)
      for (int64_t i = 0; i < c.m; ++i) {
        double value = 0;
        for (int64_t l = 0; l < c.k; ++l)
          value += a[c.trans_a ? at(c, c.k, c.m, z, l, i) : at(c, c.m, c.k, z, i, l)] *
                   b[c.trans_b ? at(c, c.n, c.k, z, j, l) : at(c, c.k, c.n, z, l, j)];
        double& result = want[at(c, c.m, c.n, z, i, j)];
        value = double(c.alpha) * value + double(c.beta) * result;
        if (c.epilogue & CUBLASLT_EPILOGUE_BIAS) value += bias[size_t(i)];
        double& kept = want_aux[size_t(i + j * aux_ld)];
        if (has_aux && !is_dgelu) kept = value;
        if (c.epilogue & CUBLASLT_EPILOGUE_GELU) value = gelu(value);
        if (is_dgelu) value *= gelu_slope(kept);
        row_sums[size_t(i)] += value;
        result = value;
      }

  const Stream stream;
  const Matrix da(c.input, a), db(c.input, b),
      dd(c.output, c.beta == 0 ? std::vector<double>(before.size(), NAN) : before), dbias(c.output, bias),
      daux(c.output, aux);
  Call call(c);
  call.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, dbias.get());
  call.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, daux.get());
  call.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aux_ld);
  lt(call.choose());
  CHECK(call.choice.workspaceSize == 4096);
  const test::DeviceArray<char> workspace(call.choice.workspaceSize);
  lt(call.run(da.get(), db.get(), dd.get(), workspace.get(), stream));
  stream.synchronize();

  const double tolerance = c.output == CUDA_R_16BF ? 5e-3 : c.compute == CUBLAS_COMPUTE_32F ? 2e-5 : 2e-2;
  check_near(dd.host(), want, tolerance);
  if (has_aux) check_near(daux.host(), want_aux, tolerance);
  std::vector<double> gradient = dbias.host();
  const auto sum_of = [&](const std::vector<double>& matrix, int64_t outer, bool outer_is_row) {
    std::vector<double> sums(size_t(outer), 0.0);
    for (int64_t l = 0; l < c.k; ++l)
      for (int64_t o = 0; o < outer; ++o)
        sums[size_t(o)] += matrix[size_t(outer_is_row ? o + l * outer : l + o * c.k)];
    return sums;
  };
  std::vector<double> expected = bias;
  if (c.epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD) expected = row_sums;
  if (c.epilogue == CUBLASLT_EPILOGUE_BGRADA) expected = sum_of(a, c.m, !c.trans_a);
  if (c.epilogue == CUBLASLT_EPILOGUE_BGRADB) expected = sum_of(b, c.n, c.trans_b);
  gradient.resize(expected.size());
  check_near(gradient, expected, c.output == CUDA_R_16BF ? 3e-2 : 2e-5);
}

}  // namespace

TEST_CASE("products agree with loops, transposed or not, in both orders and types, and accumulate") {
  for (const bool trans_a : {false, true})
    for (const bool trans_b : {false, true})
      for (const bool row_order : {false, true}) {
        check_against_loops(
            {.m = 5, .n = 3, .k = 7, .trans_a = trans_a, .trans_b = trans_b, .row_order = row_order});
        check_against_loops({.m = 17,
                             .n = 9,
                             .k = 33,
                             .trans_a = trans_a,
                             .trans_b = trans_b,
                             .input = CUDA_R_16BF,
                             .alpha = 0.5f,
                             .beta = 1,
                             .batch = 3,
                             .row_order = row_order});
        check_against_loops({.m = 8,
                             .n = 8,
                             .k = 16,
                             .trans_a = trans_a,
                             .trans_b = trans_b,
                             .input = CUDA_R_16BF,
                             .output = CUDA_R_16BF,
                             .beta = -2,
                             .row_order = row_order});
      }
}

TEST_CASE("every epilogue agrees with loops, in fp32 and in bf16") {
  for (const cudaDataType type : {CUDA_R_32F, CUDA_R_16BF})
    for (const auto epilogue :
         {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS,
          CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU,
          CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB})
      for (const bool trans_a : {false, true})
        check_against_loops({.m = 12,
                             .n = 10,
                             .k = 6,
                             .trans_a = trans_a,
                             .trans_b = !trans_a,
                             .input = type,
                             .output = type,
                             .epilogue = epilogue,
                             .alpha = 0.25f});
}

TEST_CASE("TF32 is as inexact as its mantissa of ten bits") {
  check_against_loops({.m = 16,
                       .n = 16,
                       .k = 64,
                       .trans_a = false,
                       .trans_b = false,
                       .compute = CUBLAS_COMPUTE_32F_FAST_TF32});
  const Case c{
      .m = 1, .n = 1, .k = 1, .trans_a = false, .trans_b = false, .compute = CUBLAS_COMPUTE_32F_FAST_TF32};
  const Stream stream;
  const Matrix a(CUDA_R_32F, std::vector<double>{1 + 0x1p-12}), b(CUDA_R_32F, std::vector<double>{1}),
      d(CUDA_R_32F, 1);
  Call call(c);
  lt(call.choose());
  const test::DeviceArray<char> workspace(4096);
  lt(call.run(a.get(), b.get(), d.get(), workspace.get(), stream));
  stream.synchronize();
  CHECK(d.host()[0] == 1.0);
}

TEST_CASE("what cuBLASLt documents as unsupported is refused") {
  const auto status = [](Case c, auto change) {
    Call call(c);
    change(call);
    return call.choose();
  };
  const auto nothing = [](Call&) {};
  const Case plain{.m = 8, .n = 8, .k = 8, .trans_a = false, .trans_b = false};
  Case c = plain;
  c.epilogue = CUBLASLT_EPILOGUE_BIAS;
  CHECK(status(c, nothing) == CUBLAS_STATUS_SUCCESS);
  CHECK(status(c, [](Call& call) { call.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t{CUDA_R_16BF}); }) ==
        CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(status(c, [](Call& call) {
          call.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<void*>(uintptr_t{4}));
        }) == CUBLAS_STATUS_NOT_SUPPORTED);
  c.row_order = true;
  CHECK(status(c, nothing) == CUBLAS_STATUS_NOT_SUPPORTED);
  c = plain;
  c.epilogue = CUBLASLT_EPILOGUE_GELU_AUX;
  CHECK(status(c, [](Call& call) { call.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{12}); }) ==
        CUBLAS_STATUS_NOT_SUPPORTED);
  c = plain;
  c.output = CUDA_R_16BF;
  CHECK(status(c, nothing) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(
      status(plain, [](Call& call) {
        const uint64_t rows = 9;
        lt(cublasLtMatrixLayoutSetAttribute(call.d_layout, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, sizeof rows));
      }) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("an algorithm runs only what it was chosen for, with its workspace and its alignment") {
  const Case c{.m = 8, .n = 8, .k = 8, .trans_a = false, .trans_b = false};
  const Case other{.m = 8, .n = 8, .k = 4, .trans_a = false, .trans_b = false};
  const Stream stream;
  const Matrix a(CUDA_R_32F, std::vector<double>(128, 1)), b(CUDA_R_32F, std::vector<double>(128, 1)),
      d(CUDA_R_32F, 128);
  const test::DeviceArray<char> workspace(4096);
  Call call(c), foreign(other);
  lt(call.choose());
  foreign.choice = call.choice;
  CHECK(foreign.run(a.get(), b.get(), d.get(), workspace.get(), stream) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(call.run(a.get() + 16, b.get(), d.get(), workspace.get(), stream) == CUBLAS_STATUS_NOT_SUPPORTED);
  call.require_alignment(16);
  lt(call.choose());
  lt(call.run(a.get() + 16, b.get(), d.get(), workspace.get(), stream));
  CHECK(call.run(a.get() + 4, b.get(), d.get(), workspace.get(), stream) == CUBLAS_STATUS_NOT_SUPPORTED);
  call.choice.workspaceSize = 16;
  CHECK(call.run(a.get(), b.get(), d.get(), workspace.get(), stream) == CUBLAS_STATUS_INVALID_VALUE);
  stream.synchronize();
  for (const char byte : workspace.host()) CHECK(byte == char(0xff));
}

TEST_CASE("alpha and beta may lie on the device and count when the product runs") {
  const Case c{.m = 1, .n = 1, .k = 1, .trans_a = false, .trans_b = false};
  const Stream stream;
  const Matrix a(CUDA_R_32F, std::vector<double>{3}), b(CUDA_R_32F, std::vector<double>{5}),
      d(CUDA_R_32F, std::vector<double>{100});
  const test::DeviceArray<float> scales(std::vector<float>{0, 0});
  Call call(c);
  call.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
  const float values[] = {2, 1};
  cuda(cudaMemcpyAsync(scales.get(), values, sizeof values, cudaMemcpyHostToDevice, stream));
  lt(cublasLtMatmul(call.handle, call.desc, scales.get(), a.get(), call.a_layout, b.get(), call.b_layout,
                    scales.get() + 1, d.get(), call.d_layout, d.get(), call.d_layout, nullptr, nullptr, 0,
                    stream));
  stream.synchronize();
  CHECK(d.host()[0] == 130.0);
}

}  // namespace gpt
