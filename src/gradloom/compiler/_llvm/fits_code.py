"""The text of the functions of Note [Arrays that fit]."""

from __future__ import annotations

from collections.abc import Callable

from .fits import BASE, DATA, DTYPE, FLAGS, NDIM, SIZES, STRIDES


def text(header: int, word: Callable[[str], int]) -> str:
    """Return the text of `check`, `fits`, `holds` and `rows`.

    Args:
        header: bytes of an object's header.
        word: returns the place of a word of a frame.
    """
    places = {"data": DATA, "ndim": NDIM, "sizes": SIZES, "strides": STRIDES, "base": BASE, "dtype": DTYPE}
    places |= {"flags": FLAGS, "type": -8, "frame": 0}
    found = _IR
    for name, place in places.items():
        found = found.replace(f"<{name}>", str(header + place))
    for name in ("layouts", "right", "misfit", "increase"):
        found = found.replace(f"<{name} word>", str(8 * word(name)))
    return found


# Words of a table: how many walks, the type of arrays, how many arrays; and for each walk the number of the array, its
# dtype, the flags that it must have, the size of an element, whether the walk is of the whole array, where it begins,
# where it ends, how many dimensions it has (-1 if the array must not have gaps), and their strides and sizes.
_IR = """
; Return whether dimensions of an array make up one of `count` steps of `stride`.
define internal i1 @chained(ptr %strides, ptr %sizes, i64 %ndim, i64 %stride, i64 %count) nounwind {
entry:
  br label %next
next:
  %total = phi i64 [ 1, %entry ], [ %total.next, %found ]
  %step = phi i64 [ %stride, %entry ], [ %step.next, %found ]
  %done = icmp sge i64 %total, %count
  br i1 %done, label %judge, label %search
search:
  %d = phi i64 [ 0, %next ], [ %d.next, %other ]
  %some = icmp ult i64 %d, %ndim
  br i1 %some, label %look, label %missing
look:
  %stride.at = getelementptr i64, ptr %strides, i64 %d
  %this = load i64, ptr %stride.at, align 8
  %same = icmp eq i64 %this, %step
  br i1 %same, label %sized, label %other
sized:
  %size.at = getelementptr i64, ptr %sizes, i64 %d
  %size = load i64, ptr %size.at, align 8
  %moves = icmp sgt i64 %size, 1
  br i1 %moves, label %found, label %other
other:
  %d.next = add i64 %d, 1
  br label %search
found:
  %total.next = mul i64 %total, %size
  %step.next = mul i64 %step, %size
  br label %next
judge:
  %exact = icmp eq i64 %total, %count
  ret i1 %exact
missing:
  ret i1 false
}

; Return whether an array has no gaps, from its first byte to the end.
define internal i1 @dense(ptr %strides, ptr %sizes, i64 %ndim, i64 %item, i64 %bytes) nounwind {
entry:
  br label %next
next:
  %step = phi i64 [ %item, %entry ], [ %step.next, %sized ]
  br label %search
search:
  %d = phi i64 [ 0, %next ], [ %d.next, %other ]
  %some = icmp ult i64 %d, %ndim
  br i1 %some, label %look, label %judge
look:
  %stride.at = getelementptr i64, ptr %strides, i64 %d
  %this = load i64, ptr %stride.at, align 8
  %size.at = getelementptr i64, ptr %sizes, i64 %d
  %size = load i64, ptr %size.at, align 8
  %same = icmp eq i64 %this, %step
  %moves = icmp sgt i64 %size, 1
  %taken = and i1 %same, %moves
  br i1 %taken, label %sized, label %other
other:
  %d.next = add i64 %d, 1
  br label %search
sized:
  %step.next = mul i64 %step, %size
  br label %next
judge:
  %exact = icmp eq i64 %step, %bytes
  ret i1 %exact
}

; Return the number of bytes of an array's elements.
define internal i64 @size(ptr %x, i64 %item) nounwind {
entry:
  %ndim.at = getelementptr i8, ptr %x, i64 <ndim>
  %ndim = load i32, ptr %ndim.at, align 4
  %sizes.at = getelementptr i8, ptr %x, i64 <sizes>
  %sizes = load ptr, ptr %sizes.at, align 8
  br label %next
next:
  %d = phi i32 [ 0, %entry ], [ %d.next, %multiply ]
  %bytes = phi i64 [ %item, %entry ], [ %bytes.next, %multiply ]
  %some = icmp slt i32 %d, %ndim
  br i1 %some, label %multiply, label %done
multiply:
  %size.at = getelementptr i64, ptr %sizes, i32 %d
  %size = load i64, ptr %size.at, align 8
  %bytes.next = mul i64 %bytes, %size
  %d.next = add i32 %d, 1
  br label %next
done:
  ret i64 %bytes
}

; Return whether an array with gaps, or in another order than C's, fits a walk.
define internal i1 @strided(ptr %x, i64 %item, i64 %whole, i64 %low, i64 %high, i64 %dims, ptr %steps) nounwind {
entry:
  %ndim.at = getelementptr i8, ptr %x, i64 <ndim>
  %ndim.narrow = load i32, ptr %ndim.at, align 4
  %ndim = zext i32 %ndim.narrow to i64
  %sizes.at = getelementptr i8, ptr %x, i64 <sizes>
  %sizes = load ptr, ptr %sizes.at, align 8
  %strides.at = getelementptr i8, ptr %x, i64 <strides>
  %strides = load ptr, ptr %strides.at, align 8
  br label %next
next:
  %d = phi i64 [ 0, %entry ], [ %d.next, %reach ]
  %first = phi i64 [ 0, %entry ], [ %first.next, %reach ]
  %last = phi i64 [ %item, %entry ], [ %last.next, %reach ]
  %some = icmp ult i64 %d, %ndim
  br i1 %some, label %look, label %edges
look:
  %size.at = getelementptr i64, ptr %sizes, i64 %d
  %size = load i64, ptr %size.at, align 8
  %stride.at = getelementptr i64, ptr %strides, i64 %d
  %stride = load i64, ptr %stride.at, align 8
  %nothing = icmp eq i64 %size, 0
  br i1 %nothing, label %empty, label %reach
reach:
  %steps.of = sub i64 %size, 1
  %far = mul i64 %steps.of, %stride
  %back = icmp slt i64 %far, 0
  %down = select i1 %back, i64 %far, i64 0
  %up = select i1 %back, i64 0, i64 %far
  %first.next = add i64 %first, %down
  %last.next = add i64 %last, %up
  %d.next = add i64 %d, 1
  br label %next
empty:
  %none = icmp eq i64 %low, %high
  ret i1 %none
edges:
  %same.low = icmp eq i64 %first, %low
  %same.high = icmp eq i64 %last, %high
  %same = and i1 %same.low, %same.high
  %in.low = icmp sle i64 %first, %low
  %in.high = icmp sge i64 %last, %high
  %inside = and i1 %in.low, %in.high
  %is.whole = icmp ne i64 %whole, 0
  %right = select i1 %is.whole, i1 %same, i1 %inside
  br i1 %right, label %made, label %wrong
made:
  %known = icmp sge i64 %dims, 0
  br i1 %known, label %dimension, label %gaps
dimension:
  %k = phi i64 [ 0, %made ], [ %k.next, %one ]
  %more = icmp slt i64 %k, %dims
  br i1 %more, label %one, label %fit
one:
  %pair = mul i64 %k, 2
  %step.at = getelementptr i64, ptr %steps, i64 %pair
  %step = load i64, ptr %step.at, align 8
  %count.at = getelementptr i64, ptr %step.at, i64 1
  %count = load i64, ptr %count.at, align 8
  %k.next = add i64 %k, 1
  %chained = call i1 @chained(ptr %strides, ptr %sizes, i64 %ndim, i64 %step, i64 %count)
  br i1 %chained, label %dimension, label %gaps
gaps:
  %forward = icmp eq i64 %first, 0
  %dense = call i1 @dense(ptr %strides, ptr %sizes, i64 %ndim, i64 %item, i64 %last)
  %both = and i1 %forward, %dense
  ret i1 %both
fit:
  ret i1 true
wrong:
  ret i1 false
}

; Return 0 if all arrays fit their walks, 1 if not.
define i32 @fits(ptr %table, ptr %objects) nounwind {
entry:
  %count = load i64, ptr %table, align 8
  %array_type.at = getelementptr i64, ptr %table, i64 1
  %array_type = load i64, ptr %array_type.at, align 8
  %begin = getelementptr i64, ptr %table, i64 3
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %fitting ]
  %at = phi ptr [ %begin, %entry ], [ %at.next, %fitting ]
  %some = icmp ult i64 %i, %count
  br i1 %some, label %look, label %right
look:
  %number = load i64, ptr %at, align 8
  %x.at = getelementptr ptr, ptr %objects, i64 %number
  %x = load ptr, ptr %x.at, align 8
  %type.at = getelementptr i8, ptr %x, i64 <type>
  %type = load i64, ptr %type.at, align 8
  %typed = icmp eq i64 %type, %array_type
  br i1 %typed, label %array, label %wrong
array:
  %wanted.dtype.at = getelementptr i64, ptr %at, i64 1
  %wanted.dtype = load i64, ptr %wanted.dtype.at, align 8
  %dtype.at = getelementptr i8, ptr %x, i64 <dtype>
  %dtype = load i64, ptr %dtype.at, align 8
  %same.dtype = icmp eq i64 %dtype, %wanted.dtype
  %mask.at = getelementptr i64, ptr %at, i64 2
  %mask = load i32, ptr %mask.at, align 8
  %flags.at = getelementptr i8, ptr %x, i64 <flags>
  %flags = load i32, ptr %flags.at, align 4
  %set = and i32 %flags, %mask
  %flagged = icmp eq i32 %set, %mask
  %usable = and i1 %same.dtype, %flagged
  br i1 %usable, label %measure, label %wrong
measure:
  %item.at = getelementptr i64, ptr %at, i64 3
  %item = load i64, ptr %item.at, align 8
  %whole.at = getelementptr i64, ptr %at, i64 4
  %whole = load i64, ptr %whole.at, align 8
  %low.at = getelementptr i64, ptr %at, i64 5
  %low = load i64, ptr %low.at, align 8
  %high.at = getelementptr i64, ptr %at, i64 6
  %high = load i64, ptr %high.at, align 8
  %dims.at = getelementptr i64, ptr %at, i64 7
  %dims = load i64, ptr %dims.at, align 8
  %steps = getelementptr i64, ptr %at, i64 8
  %in.order = and i32 %flags, 1
  %plain = icmp ne i32 %in.order, 0
  br i1 %plain, label %contiguous, label %other
contiguous:
  %bytes = call i64 @size(ptr %x, i64 %item)
  %at.start = icmp eq i64 %low, 0
  %after.start = icmp sge i64 %low, 0
  %same = icmp eq i64 %bytes, %high
  %enough = icmp sge i64 %bytes, %high
  %exact = and i1 %at.start, %same
  %inside = and i1 %after.start, %enough
  %is.whole = icmp ne i64 %whole, 0
  %fit = select i1 %is.whole, i1 %exact, i1 %inside
  br i1 %fit, label %fitting, label %wrong
other:
  %fit.other = call i1 @strided(ptr %x, i64 %item, i64 %whole, i64 %low, i64 %high, i64 %dims, ptr %steps)
  br i1 %fit.other, label %fitting, label %wrong
fitting:
  %i.next = add i64 %i, 1
  %none = icmp slt i64 %dims, 0
  %twice = mul i64 %dims, 2
  %words = select i1 %none, i64 0, i64 %twice
  %at.next = getelementptr i64, ptr %steps, i64 %words
  br label %next
right:
  ret i32 0
wrong:
  ret i32 1
}

; The built-in function of the arrays of a table.
define ptr @check(ptr %self, ptr %arguments, i64 %count) nounwind {
entry:
  %frame.at = getelementptr i8, ptr %self, i64 <frame>
  %frame = load ptr, ptr %frame.at, align 8
  %layouts.at = getelementptr i8, ptr %frame, i64 <layouts word>
  %layouts = load ptr, ptr %layouts.at, align 8
  %right.at = getelementptr i8, ptr %frame, i64 <right word>
  %misfit.at = getelementptr i8, ptr %frame, i64 <misfit word>
  %needed.at = getelementptr i64, ptr %layouts, i64 2
  %needed = load i64, ptr %needed.at, align 8
  %all = icmp sge i64 %count, %needed
  br i1 %all, label %compare, label %done
compare:
  %wrong = call i32 @fits(ptr %layouts, ptr %arguments)
  %fit = icmp eq i32 %wrong, 0
  br label %done
done:
  %good = phi i1 [ false, %entry ], [ %fit, %compare ]
  %result.at = select i1 %good, ptr %right.at, ptr %misfit.at
  %result = load ptr, ptr %result.at, align 8
  %increase.at = getelementptr i8, ptr %frame, i64 <increase word>
  %increase = load ptr, ptr %increase.at, align 8
  call void %increase(ptr %result)
  ret ptr %result
}

; Return whether an object is a contiguous array of a dtype, 0 for any, with these flags, and of so many elements.
define i1 @holds(ptr %x, i64 %array_type, ptr %wanted.at, i64 %count) nounwind {
entry:
  %type.at = getelementptr i8, ptr %x, i64 <type>
  %type = load i64, ptr %type.at, align 8
  %typed = icmp eq i64 %type, %array_type
  br i1 %typed, label %array, label %wrong
array:
  %dtype.at = getelementptr i8, ptr %x, i64 <dtype>
  %dtype = load i64, ptr %dtype.at, align 8
  %wanted = load i64, ptr %wanted.at, align 8
  %equal = icmp eq i64 %dtype, %wanted
  %any = icmp eq i64 %wanted, 0
  %same = or i1 %equal, %any
  %mask.at = getelementptr i64, ptr %wanted.at, i64 1
  %mask = load i32, ptr %mask.at, align 8
  %flags.at = getelementptr i8, ptr %x, i64 <flags>
  %flags = load i32, ptr %flags.at, align 4
  %set = and i32 %flags, %mask
  %flagged = icmp eq i32 %set, %mask
  %usable = and i1 %same, %flagged
  br i1 %usable, label %measure, label %wrong
measure:
  %own = call i64 @size(ptr %x, i64 1)
  %exact = icmp eq i64 %own, %count
  ret i1 %exact
wrong:
  ret i1 false
}

; Return the object that owns the memory of an array; null if that is no array, or may share memory with others.
define internal ptr @owner(ptr %x, i64 %array_type) nounwind {
entry:
  br label %look
look:
  %this = phi ptr [ %x, %entry ], [ %base, %array ]
  %base.at = getelementptr i8, ptr %this, i64 <base>
  %base = load ptr, ptr %base.at, align 8
  %own = icmp eq ptr %base, null
  br i1 %own, label %found, label %based
based:
  %type.at = getelementptr i8, ptr %base, i64 <type>
  %type = load i64, ptr %type.at, align 8
  %is.array = icmp eq i64 %type, %array_type
  br i1 %is.array, label %array, label %foreign
array:
  br label %look
found:
  %flags.at = getelementptr i8, ptr %this, i64 <flags>
  %flags = load i32, ptr %flags.at, align 4
  %bit = and i32 %flags, 4
  %owns = icmp ne i32 %bit, 0
  %result = select i1 %owns, ptr %this, ptr null
  ret ptr %result
foreign:
  ret ptr null
}

; Put an object into a table of 2**n places, of which %mask is the last; return whether it was there.
define internal i1 @enter(ptr %places, i64 %mask, ptr %x) nounwind {
entry:
  %word = ptrtoint ptr %x to i64
  %near = lshr i64 %word, 4
  %mixed = mul i64 %near, -7046029254386353131
  %high = lshr i64 %mixed, 32
  br label %next
next:
  %k = phi i64 [ %high, %entry ], [ %k.next, %other ]
  %place = and i64 %k, %mask
  %at = getelementptr i64, ptr %places, i64 %place
  %there = load i64, ptr %at, align 8
  %free = icmp eq i64 %there, 0
  br i1 %free, label %put, label %taken
put:
  store i64 %word, ptr %at, align 8
  ret i1 false
taken:
  %same = icmp eq i64 %there, %word
  br i1 %same, label %found, label %other
other:
  %k.next = add i64 %k, 1
  br label %next
found:
  ret i1 true
}

; Look at rows of contiguous arrays, each of as many elements as its size says: return 2 if one is not; else 1 if two
; that are not the same argument may share memory, and 0 if none do. Their addresses are written to %spans.
; Words of the table: arrays of a row, the type of arrays, how far sizes are shifted to the right, bytes of an element;
; and for each array its dtype, the flags that it must have, and whether it is not an earlier one of the row.
define i32 @rows(ptr %table, ptr %objects, ptr %sizes, i64 %count, ptr %places, i64 %mask, ptr %spans) nounwind {
entry:
  %width = load i64, ptr %table, align 8
  %array_type.at = getelementptr i64, ptr %table, i64 1
  %array_type = load i64, ptr %array_type.at, align 8
  %shift.at = getelementptr i64, ptr %table, i64 2
  %shift = load i64, ptr %shift.at, align 8
  %item.at = getelementptr i64, ptr %table, i64 3
  %item = load i64, ptr %item.at, align 8
  %walks = getelementptr i64, ptr %table, i64 4
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r.next, %row.done ]
  %at.row = phi ptr [ %objects, %entry ], [ %at, %row.done ]
  %span.row = phi ptr [ %spans, %entry ], [ %span, %row.done ]
  %shared.row = phi i32 [ 0, %entry ], [ %shared, %row.done ]
  %more = icmp ult i64 %r, %count
  br i1 %more, label %begin, label %done
begin:
  %size.at = getelementptr i64, ptr %sizes, i64 %r
  %size = load i64, ptr %size.at, align 8
  %elements = lshr i64 %size, %shift
  %bytes = mul i64 %elements, %item
  br label %array
array:
  %k = phi i64 [ 0, %begin ], [ %k.next, %array.done ]
  %at = phi ptr [ %at.row, %begin ], [ %at.next, %array.done ]
  %walk = phi ptr [ %walks, %begin ], [ %walk.next, %array.done ]
  %span = phi ptr [ %span.row, %begin ], [ %span.next, %array.done ]
  %shared = phi i32 [ %shared.row, %begin ], [ %shared.next, %array.done ]
  %some = icmp ult i64 %k, %width
  br i1 %some, label %look, label %row.done
look:
  %x = load ptr, ptr %at, align 8
  %held = call i1 @holds(ptr %x, i64 %array_type, ptr %walk, i64 %elements)
  br i1 %held, label %fit, label %misfit
fit:
  %new.at = getelementptr i64, ptr %walk, i64 2
  %new.word = load i64, ptr %new.at, align 8
  %new = icmp ne i64 %new.word, 0
  %has = icmp ne i64 %bytes, 0
  %counts = and i1 %new, %has
  br i1 %counts, label %note, label %array.done
note:
  %data.at = getelementptr i8, ptr %x, i64 <data>
  %data = load i64, ptr %data.at, align 8
  store i64 %data, ptr %span, align 8
  %end = add i64 %data, %bytes
  %end.at = getelementptr i64, ptr %span, i64 1
  store i64 %end, ptr %end.at, align 8
  %span.more = getelementptr i64, ptr %span, i64 2
  %owner = call ptr @owner(ptr %x, i64 %array_type)
  %foreign = icmp eq ptr %owner, null
  br i1 %foreign, label %array.done, label %find
find:
  %twice = call i1 @enter(ptr %places, i64 %mask, ptr %owner)
  br label %array.done
array.done:
  %span.next = phi ptr [ %span, %fit ], [ %span.more, %note ], [ %span.more, %find ]
  %this = phi i1 [ false, %fit ], [ true, %note ], [ %twice, %find ]
  %this.wide = zext i1 %this to i32
  %shared.next = or i32 %shared, %this.wide
  %k.next = add i64 %k, 1
  %at.next = getelementptr ptr, ptr %at, i64 1
  %walk.next = getelementptr i64, ptr %walk, i64 3
  br label %array
row.done:
  %r.next = add i64 %r, 1
  br label %row
done:
  ret i32 %shared.row
misfit:
  ret i32 2
}
"""
