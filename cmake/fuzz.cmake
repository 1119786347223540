# One executable a reader. With libFuzzer where the compiler has it (clang), else with a main of our own that changes
# seeds at random (native/fuzz/mutate.cpp).
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer)
check_cxx_source_compiles([[
  #include <cstddef>
  #include <cstdint>
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t*, std::size_t) { return 0; }
]] SYMSGD_LIBFUZZER)
unset(CMAKE_REQUIRED_FLAGS)

set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all)
if(SYMSGD_LIBFUZZER)
  list(APPEND sanitizers -fsanitize=fuzzer)
else()
  set(fuzz_main native/fuzz/mutate.cpp)
endif()

foreach(reader svmlight vowpal)
  add_executable(fuzz_${reader} native/fuzz/${reader}.cpp ${fuzz_main} ${text_sources})
  target_include_directories(fuzz_${reader} PRIVATE native/include)
  target_compile_options(fuzz_${reader} PRIVATE -O1 -g1 -Wall -Wextra ${sanitizers})
  target_compile_definitions(fuzz_${reader} PRIVATE _GLIBCXX_SANITIZE_VECTOR)
  target_link_options(fuzz_${reader} PRIVATE ${sanitizers})
  target_link_libraries(fuzz_${reader} PRIVATE Threads::Threads)
endforeach()
