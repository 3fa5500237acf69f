"""Counted memory for loops that make arrays, in the form in which Numba asks for it.

Numba's own functions for it live in the process that compiles. These have the same names and do the same: a block of
memory is a head of six words (count, three that stay empty or say where the data are, size, allocator), then the data.
"""

NAMES = ("NRT_MemInfo_alloc_aligned", "NRT_MemInfo_call_dtor")

LLVM = """
%head = type { i64, ptr, ptr, ptr, i64, ptr }
declare ptr @malloc(i64)
declare void @free(ptr)

define weak hidden ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align) {
  %wide = zext i32 %align to i64
  %more = add i64 %wide, 48
  %total = add i64 %size, %more
  %block = call ptr @malloc(i64 %total)
  %none = icmp eq ptr %block, null
  br i1 %none, label %done, label %fill
fill:
  %begin = getelementptr i8, ptr %block, i64 48
  %number = ptrtoint ptr %begin to i64
  %below = sub i64 %wide, 1
  %above = add i64 %number, %below
  %mask = xor i64 %below, -1
  %rounded = and i64 %above, %mask
  %data = inttoptr i64 %rounded to ptr
  store %head { i64 1, ptr null, ptr null, ptr null, i64 0, ptr null }, ptr %block
  %where = getelementptr %head, ptr %block, i32 0, i32 3
  store ptr %data, ptr %where
  %extent = getelementptr %head, ptr %block, i32 0, i32 4
  store i64 %size, ptr %extent
  br label %done
done:
  ret ptr %block
}

define weak hidden void @NRT_MemInfo_call_dtor(ptr %block) {
  call void @free(ptr %block)
  ret void
}
"""
