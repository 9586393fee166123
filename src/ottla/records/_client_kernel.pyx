# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The record kernel of the client, compiled: the same results and errors as _client_kernel_py.py."""

cimport cython
from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
)
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint32_t
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec

include "_one_record.pxi"
include "_murmur2.pxi"
include "_batch_header.pxi"
include "_spare_memory.pxi"

from ottla.records.record import TimestampType

cdef object CREATE_TIME = TimestampType.CREATE_TIME
cdef object LOG_APPEND_TIME = TimestampType.LOG_APPEND_TIME

cdef extern from *:
    """
    /* Whether objects of the type are tuples and nothing else, as those of named tuples are. */
    static int ottla_is_plain_tuple(PyObject *type) {
        PyTypeObject *found = (PyTypeObject *)type;
        return PyType_Check(type) && PyType_IsSubtype(found, &PyTuple_Type)
            && found->tp_basicsize == PyTuple_Type.tp_basicsize && found->tp_dictoffset == 0
            && found->tp_weaklistoffset == 0;
    }

    /* The eleven fields of a ConsumerRecord, in order. One whose key and value are bytes cannot be
       part of a cycle, and the collector need not know of it; see ottla_new_record in _kernel.pyx.
       All of the memory is set here, so that it need not be cleared first as tp_alloc does. */
    static PyObject *ottla_new_consumer_record(PyObject *type, PyObject *topic, PyObject *partition,
                                               PyObject *offset, PyObject *timestamp,
                                               PyObject *timestamp_type, PyObject *key,
                                               PyObject *value, PyObject *headers,
                                               PyObject *leader_epoch, PyObject *key_size,
                                               PyObject *value_size, int tracked) {
        PyObject *record = (PyObject *)PyObject_GC_NewVar(PyTupleObject, (PyTypeObject *)type, 11);
        if (record == NULL) return NULL;
    #if PY_VERSION_HEX >= 0x030E0000
        ((PyTupleObject *)record)->ob_hash = -1;
    #endif
        Py_INCREF(topic); PyTuple_SET_ITEM(record, 0, topic);
        Py_INCREF(partition); PyTuple_SET_ITEM(record, 1, partition);
        Py_INCREF(offset); PyTuple_SET_ITEM(record, 2, offset);
        Py_INCREF(timestamp); PyTuple_SET_ITEM(record, 3, timestamp);
        Py_INCREF(timestamp_type); PyTuple_SET_ITEM(record, 4, timestamp_type);
        Py_INCREF(key); PyTuple_SET_ITEM(record, 5, key);
        Py_INCREF(value); PyTuple_SET_ITEM(record, 6, value);
        Py_INCREF(headers); PyTuple_SET_ITEM(record, 7, headers);
        Py_INCREF(leader_epoch); PyTuple_SET_ITEM(record, 8, leader_epoch);
        Py_INCREF(key_size); PyTuple_SET_ITEM(record, 9, key_size);
        Py_INCREF(value_size); PyTuple_SET_ITEM(record, 10, value_size);
        if (tracked) PyObject_GC_Track(record);
        return record;
    }

    /* The six fields of a RecordMetadata, in order: strings and numbers, so it is no part of a cycle. */
    static PyObject *ottla_new_metadata(PyObject *type, PyObject *topic, PyObject *partition,
                                        PyObject *offset, PyObject *timestamp, PyObject *key_size,
                                        PyObject *value_size) {
        PyObject *metadata = (PyObject *)PyObject_GC_NewVar(PyTupleObject, (PyTypeObject *)type, 6);
        if (metadata == NULL) return NULL;
    #if PY_VERSION_HEX >= 0x030E0000
        ((PyTupleObject *)metadata)->ob_hash = -1;
    #endif
        Py_INCREF(topic); PyTuple_SET_ITEM(metadata, 0, topic);
        Py_INCREF(partition); PyTuple_SET_ITEM(metadata, 1, partition);
        Py_INCREF(offset); PyTuple_SET_ITEM(metadata, 2, offset);
        Py_INCREF(timestamp); PyTuple_SET_ITEM(metadata, 3, timestamp);
        Py_INCREF(key_size); PyTuple_SET_ITEM(metadata, 4, key_size);
        Py_INCREF(value_size); PyTuple_SET_ITEM(metadata, 5, value_size);
        return metadata;
    }
    """
    bint ottla_is_plain_tuple(object type)
    object ottla_new_metadata(
        object type, object topic, object partition, object offset, object timestamp,
        object key_size, object value_size
    )
    object ottla_new_consumer_record(
        object type, object topic, object partition, object offset, object timestamp,
        object timestamp_type, object key, object value, object headers, object leader_epoch,
        object key_size, object value_size, int tracked
    )

cdef extern from *:
    """
    static PyObject *ottla_new_object(PyObject *type, PyObject *no_arguments, void *no_keywords) {
        return ((PyTypeObject *)type)->tp_new((PyTypeObject *)type, no_arguments, no_keywords);
    }
    """
    object PyType_New "ottla_new_object" (object type, object no_arguments, void *no_keywords)

cdef tuple EMPTY = ()


cdef inline int64_t now_ms() noexcept nogil:
    """The time of the clock, as time.time_ns returns it."""
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return <int64_t> now.tv_sec * 1000 + now.tv_nsec // 1_000_000


cdef enum:
    DOES_NOT_FIT = -1
    NO_TIMESTAMP = -1
    # The initial capacity of a builder, enough for a batch of the default size.
    FIRST_ROOM_BYTES = 16384

# A batch has a length of 32 bits, which also counts 49 bytes of its header.
cdef int64_t MOST_BYTES = <int64_t> INT32_MAX - 49


# ---------------------------------------------------------------- building

cdef object too_far(int64_t index):
    return ValueError(f"record {index}: its timestamp is too far from the base timestamp")


cdef class SentRecord:
    """The index of a record in its batch, and its metadata that is known before it is sent."""

    cdef readonly object _batch
    cdef readonly int64_t _index
    cdef readonly int64_t _timestamp
    cdef readonly int64_t _key_size
    cdef readonly int64_t _value_size

    def __init__(
        self, batch, int64_t index, int64_t timestamp, int64_t key_size, int64_t value_size
    ):
        self._batch = batch
        self._index = index
        self._timestamp = timestamp
        self._key_size = key_size
        self._value_size = value_size


cdef struct Sent:
    int64_t index
    int64_t timestamp
    int64_t key_size
    int64_t value_size


cdef class Callbacks:
    """The callbacks of records of a batch, with the record's index and its metadata that is known before it is sent.

    Numbers are kept outside of Python: thousands of objects would be the collector's work until the batch ends.
    """

    cdef list functions
    cdef Sent *sent
    cdef Py_ssize_t room

    def __cinit__(self):
        self.functions = []
        self.sent = NULL
        self.room = 0

    def __dealloc__(self):
        free(self.sent)

    def __len__(self):
        return len(self.functions)

    cdef int make_room(self) except -1:
        """Room for one more, so that nothing can fail when it is added."""
        cdef Py_ssize_t wanted
        cdef Sent *larger
        if len(self.functions) >= self.room:
            wanted = max(64, 2 * self.room)
            larger = <Sent *> realloc(self.sent, wanted * sizeof(Sent))
            if larger is NULL:
                raise MemoryError
            self.sent = larger
            self.room = wanted
        return 0

    cdef int put(
        self, int64_t index, int64_t timestamp, int64_t key_size, int64_t value_size, object function
    ) except -1:
        cdef Sent *sent = self.sent + len(self.functions)
        sent.index = index
        sent.timestamp = timestamp
        sent.key_size = key_size
        sent.value_size = value_size
        self.functions.append(function)
        return 0

    def add(
        self, int64_t index, int64_t timestamp, int64_t key_size, int64_t value_size, function
    ):
        """Add the callback of a record."""
        self.make_room()
        self.put(index, timestamp, key_size, value_size, function)

    def entries(self):
        """Index, timestamp, sizes of key and value, and callback of each record."""
        cdef list found = []
        cdef Py_ssize_t number
        cdef Sent sent
        for number in range(len(self.functions)):
            sent = self.sent[number]
            found.append(
                (sent.index, sent.timestamp, sent.key_size, sent.value_size, self.functions[number])
            )
        return found

    def deliver(
        self, metadata_class, topic, partition, int64_t base_offset, int64_t append_time_ms, failed
    ):
        """Call each with its record's metadata and None; `failed` after an exception of one.

        Without a base offset (-1) the records have none; without an append time (-1) they keep their own time.
        """
        cdef Py_ssize_t number
        cdef Sent sent
        cdef object function, metadata
        if not ottla_is_plain_tuple(metadata_class):
            raise TypeError("the class of the metadata has to be a named tuple")
        for number in range(len(self.functions)):
            sent = self.sent[number]
            function = self.functions[number]
            metadata = ottla_new_metadata(
                metadata_class,
                topic,
                partition,
                PyLong_FromLongLong(base_offset + sent.index if base_offset >= 0 else -1),
                PyLong_FromLongLong(append_time_ms if append_time_ms >= 0 else sent.timestamp),
                PyLong_FromLongLong(sent.key_size),
                PyLong_FromLongLong(sent.value_size),
            )
            try:
                function(metadata, None)
            except (Exception, SystemExit):
                failed()


cdef class RecordsBuilder:
    """A records section that grows record by record up to a limit.

    A timestamp of None is the time of the clock. Threads may append at the same time, and once it is
    closed, it takes no more: an append returns that the record does not fit.

    No lock is needed for that, as long as nothing between the first and the last change for a record
    runs Python code: so nothing there makes an object that the collector knows of.
    """

    cdef Output output
    cdef Output headers_output
    cdef readonly int64_t limit_bytes
    cdef readonly int64_t record_count
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly bint is_closed
    cdef readonly Callbacks callbacks

    def __cinit__(self, int64_t limit_bytes):
        self.output = Output(NULL, 0, 0)
        self.headers_output = Output(NULL, 0, 0)
        self.limit_bytes = limit_bytes
        self.record_count = 0
        self.base_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.is_closed = False
        self.callbacks = None

    def __dealloc__(self):
        free(self.output.start)
        free(self.headers_output.start)

    @property
    def size_bytes(self):
        """The size of the section so far."""
        return self.output.used

    @property
    def is_full(self):
        """Whether the limit is reached; one record may be larger than the limit."""
        return <int64_t> self.output.used >= self.limit_bytes

    cdef int64_t put(self, int64_t timestamp, object key, object value) except -2:
        """Add a record with the headers of `headers_output`; returns the size after that, or -1."""
        cdef int64_t index = self.record_count
        cdef int64_t limit_bytes = MOST_BYTES
        cdef int64_t delta = 0
        if index:
            if delta_of(timestamp, self.base_timestamp, &delta):
                raise too_far(index)
            limit_bytes = min(limit_bytes, self.limit_bytes)
        if self.is_closed:
            limit_bytes = 0
        elif self.output.size == 0:
            reserve(&self.output, FIRST_ROOM_BYTES)
        if not put_fields(
            &self.output, &self.headers_output, index, delta, index, key, value, limit_bytes
        ):
            if not index and not self.is_closed:
                raise ValueError(f"record {index}: it is larger than 2 GiB")
            return DOES_NOT_FIT
        if not index:
            self.base_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.record_count = index + 1
        return self.output.used

    cdef int64_t check_timestamp(self, object timestamp) except? -1:
        cdef int overflow = 0
        cdef int64_t number
        if timestamp is None:
            return now_ms()
        if not isinstance(timestamp, int):
            raise TypeError(f"record {self.record_count}: timestamp has to be int")
        number = PyLong_AsLongLongAndOverflow(timestamp, &overflow)
        if overflow:
            raise too_far(self.record_count)
        return number

    cdef int take_headers(self, object headers) except -1:
        self.headers_output.used = 0
        if headers is not ():
            put_headers(&self.headers_output, headers, self.record_count)
        return 0

    def append(self, timestamp, key, value, headers=()):
        """Add a record; returns the size of the section, or -1 if it would pass the limit.

        The first record is taken whatever its size: it gets a batch of its own.
        """
        cdef int64_t number = self.check_timestamp(timestamp)
        self.take_headers(headers)
        return self.put(number, key, value)

    def append_sent(
        self, sent_class, batch, timestamp, key, value, headers=(), on_delivery=None
    ):
        """As `append`; returns the record's future, for the batch of this builder, or None.

        `callbacks` gets `on_delivery`, if there is one, before any other thread sees the record.
        """
        return self.put_sent(sent_class, batch, timestamp, key, value, headers, on_delivery)

    cdef object put_sent(
        self, object sent_class, object batch, object timestamp, object key, object value,
        object headers, object on_delivery,
    ):
        cdef int64_t number = self.check_timestamp(timestamp)
        cdef SentRecord sent
        cdef Callbacks made
        if not isinstance(sent_class, type) or not issubclass(sent_class, SentRecord):
            raise TypeError("what tells of a record has to be a SentRecord")
        # All objects are made before the record is added. The future's __init__ is not needed.
        sent = PyType_New(sent_class, EMPTY, NULL)
        if on_delivery is not None:
            if self.callbacks is None:
                made = Callbacks()
                # Another thread may have been first while it was made.
                if self.callbacks is None:
                    self.callbacks = made
            self.callbacks.make_room()
        self.take_headers(headers)
        if self.put(number, key, value) < 0:
            return None
        sent._batch = batch
        sent._index = self.record_count - 1
        sent._timestamp = number
        sent._key_size = -1 if key is None else PyBytes_GET_SIZE(key)
        sent._value_size = -1 if value is None else PyBytes_GET_SIZE(value)
        if on_delivery is not None:
            self.callbacks.put(sent._index, number, sent._key_size, sent._value_size, on_delivery)
        return sent

    def extend(self, timestamp, values, keys=None, headers=(), Py_ssize_t start=0):
        """Add records of one timestamp from `values[start]` on; returns the index of the first one, and how many fit.

        All of them have the same headers. If one is refused by an exception, none was added.
        """
        cdef int64_t number, index, count_before, base_before, max_before
        cdef size_t used_before
        cdef Py_ssize_t count
        cdef object key, value
        cdef str wrong = None
        cdef int64_t added = 0
        if not isinstance(values, (list, tuple)):
            raise TypeError("values have to be a list or a tuple")
        if keys is not None and not isinstance(keys, (list, tuple)):
            raise TypeError("keys have to be a list or a tuple")
        count = len(values)
        if keys is not None and len(keys) != count:
            raise ValueError(f"there are {len(keys)} keys for {count} values")
        if start < 0:
            raise ValueError("start cannot be negative")
        if start >= count:
            return self.record_count, 0
        number = self.check_timestamp(timestamp)
        self.take_headers(headers)
        count_before = self.record_count
        base_before = self.base_timestamp
        max_before = self.max_timestamp
        used_before = self.output.used
        try:
            for index in range(start, count):
                key = item(keys, index)
                value = item(values, index)
                # As `put` does, which must not raise here: making an exception may run other code.
                if key is not None and not isinstance(key, bytes):
                    wrong = "key"
                elif value is not None and not isinstance(value, bytes):
                    wrong = "value"
                elif self.put(number, key, value) >= 0:
                    added += 1
                    continue
                break
        except BaseException:
            wrong = ""
            raise
        finally:
            if wrong is not None:
                self.record_count = count_before
                self.base_timestamp = base_before
                self.max_timestamp = max_before
                self.output.used = used_before
        if wrong is not None:
            raise TypeError(
                f"record {count_before + index - start}: {wrong} has to be bytes or None"
            )
        return count_before, added

    def close(self):
        """Take no more records."""
        self.is_closed = True

    def section(self):
        """A copy of the section."""
        return PyBytes_FromStringAndSize(<char *> self.output.start, self.output.used)


cdef class QuickWriter:
    """Writes records of bytes that need no waiting: their topic is known, and an open batch has room.

    `topics` has the queues of each topic: `count`, `queues`, and `sticky_queue` for records without a key, also for
    all records if keys are ignored. A queue has its `open` batch, and that its `builder`. The records of `accumulator`
    are refused while it has a `refusal`. Timestamps below `least_timestamp` are left to the caller.
    """

    cdef dict topics
    cdef object accumulator
    cdef object sent_class
    cdef bint ignores_keys
    cdef int64_t least_timestamp

    def __init__(
        self, dict topics not None, accumulator, sent_class, bint ignores_keys,
        int64_t least_timestamp,
    ):
        self.topics = topics
        self.accumulator = accumulator
        self.sent_class = sent_class
        self.ignores_keys = ignores_keys
        self.least_timestamp = least_timestamp

    def try_send(self, topic, value, key, partition, headers, timestamp, on_delivery):
        """The record's future; None if something has to be waited for, or if an argument is wrong."""
        cdef object known, queue, batch, builder
        cdef int64_t number
        try:
            known = self.topics.get(topic)
            if known is None:
                return None
            if timestamp is not None and (
                type(timestamp) is not int or timestamp < self.least_timestamp
            ):
                return None
            if on_delivery is not None and not callable(on_delivery):
                return None
            if partition is None:
                if key is None or self.ignores_keys:
                    queue = known.sticky_queue
                elif type(key) is bytes:
                    number = known.count
                    queue = known.queues[partition_of_key(key, number)]
                else:
                    return None
            elif type(partition) is int and 0 <= partition < known.count:
                queue = known.queues[partition]
            else:
                return None
            if queue is None:
                return None
            batch = queue.open
            if batch is None or self.accumulator.refusal is not None:
                return None
            builder = batch.builder
            if type(builder) is not RecordsBuilder:
                return None
            return (<RecordsBuilder> builder).put_sent(
                self.sent_class, batch, timestamp, key, value, headers or (), on_delivery
            )
        except (TypeError, ValueError, AttributeError):
            # The caller takes the long way, which raises the error that says what is wrong.
            return None


# ---------------------------------------------------------------- reading

cdef class RecordsReader:
    """Reads the records of a section, a few at a time, as tuples of `record_class`.

    Its fields are those of ConsumerRecord: topic, partition, offset, timestamp, timestamp type, key,
    value, headers, leader epoch, and the sizes of key and value as they were sent (-1 for null).
    `key_of(topic, headers, bytes)` and `value_of(topic, headers, bytes)` make the keys and values that
    are not null.
    """

    # Not a field of its own, which the garbage collector would follow: it would clear a memoryview in a cycle
    # with the reader (a traceback makes one) while this view of it is open, and Python crashes when it is released.
    cdef Py_buffer *view
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef int64_t count
    cdef int64_t index
    cdef int64_t base_offset
    cdef int64_t base_timestamp
    cdef int64_t start_offset
    cdef int64_t last_timestamp
    cdef bint appended
    cdef object record_class
    cdef object timestamp
    cdef object timestamp_type
    cdef object topic
    cdef object partition
    cdef object leader_epoch
    cdef object key_of
    cdef object value_of

    def __cinit__(
        self, record_class, payload, int64_t count, int64_t base_offset, int64_t base_timestamp,
        append_time_ms, topic, partition, leader_epoch, int64_t start_offset=0, key_of=None,
        value_of=None,
    ):
        if not ottla_is_plain_tuple(record_class):
            raise TypeError("the record class has to be a named tuple")
        self.appended = append_time_ms is not None
        self.last_timestamp = append_time_ms if self.appended else 0
        self.timestamp = PyLong_FromLongLong(self.last_timestamp)
        self.timestamp_type = LOG_APPEND_TIME if self.appended else CREATE_TIME
        self.view = <Py_buffer *> PyMem_Calloc(1, sizeof(Py_buffer))
        if self.view is NULL:
            raise MemoryError
        PyObject_GetBuffer(payload, self.view, PyBUF_SIMPLE)
        check_count(count, self.view.len)
        self.at = <const uint8_t *> self.view.buf
        self.end = self.at + self.view.len
        self.count = count
        self.index = 0
        self.base_offset = base_offset
        self.base_timestamp = base_timestamp
        self.start_offset = start_offset
        self.record_class = record_class
        self.topic = topic
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.key_of = key_of
        self.value_of = value_of

    def __class_getitem__(cls, record_class):
        return cls

    def __dealloc__(self):
        if self.view is not NULL:
            # Does nothing if there is no view.
            PyBuffer_Release(self.view)
            PyMem_Free(self.view)

    @property
    def done(self):
        """Whether all records were read; bytes behind the last record are an error that is not raised yet."""
        return self.index == self.count and self.at == self.end

    cdef int next_fields(self, Fields *fields) except -1:
        """Read the fields of the next wanted record; returns 1, or 0 if there is none."""
        cdef int why
        cdef int64_t timestamp = self.last_timestamp
        while self.index < self.count:
            why = parse(self.at, self.end, fields)
            if not why and self.base_offset > INT64_MAX - fields.offset_delta:
                why = OFFSET_RANGE
            if not why and not self.appended:
                why = timestamp_of(self.base_timestamp, fields, &timestamp)
            if why:
                raise corrupt(self.index, why)
            if self.base_offset + fields.offset_delta >= self.start_offset:
                # Neighbours often share their millisecond.
                if timestamp != self.last_timestamp:
                    self.timestamp = PyLong_FromLongLong(timestamp)
                    self.last_timestamp = timestamp
                return 1
            self.at = fields.end
            self.index += 1
        return 0

    cdef object record(self, const Fields *fields, object key_of, object value_of):
        cdef object key = None
        cdef object value = None
        cdef object headers = ()
        # User code may read on while this record is being made: copy its fields first.
        cdef object timestamp = self.timestamp
        if fields.header_count > 0:
            headers = read_headers(fields, self.index)
        if fields.key_bytes >= 0:
            key = PyBytes_FromStringAndSize(<char *> fields.key, fields.key_bytes)
        if fields.value_bytes >= 0:
            value = PyBytes_FromStringAndSize(<char *> fields.value, fields.value_bytes)
        if key_of is not None and key is not None:
            key = key_of(self.topic, headers, key)
        if value_of is not None and value is not None:
            value = value_of(self.topic, headers, value)
        return ottla_new_consumer_record(
            self.record_class,
            self.topic,
            self.partition,
            PyLong_FromLongLong(self.base_offset + fields.offset_delta),
            timestamp,
            self.timestamp_type,
            key,
            value,
            headers,
            self.leader_epoch,
            PyLong_FromLongLong(fields.key_bytes),
            PyLong_FromLongLong(fields.value_bytes),
            key_of is not None or value_of is not None,
        )

    def read(self, int64_t max_records):
        """The next records, at most `max_records`; none when there are no more.

        A record that is corrupt or cannot be deserialized raises when it is the first to be read:
        the reader returns those before it first, and does not get past it.
        """
        cdef list records = []
        cdef Fields fields
        cdef int64_t taken = 0
        try:
            while taken < max_records and self.next_fields(&fields):
                records.append(self.record(&fields, self.key_of, self.value_of))
                taken += 1
                self.at = fields.end
                self.index += 1
            if taken < max_records and self.at != self.end:
                raise CorruptRecordsError("bytes follow the last record")
        except Exception:
            if not taken:
                raise
        return records

    def peek(self):
        """The next record with key and value as bytes, without going past it."""
        cdef Fields fields
        if self.next_fields(&fields):
            return self.record(&fields, None, None)
        return None


# ---------------------------------------------------------------- keys

cdef inline uint32_t hash_of(object key) except? 0:
    if not isinstance(key, bytes):
        raise TypeError("a key has to be bytes")
    return murmur2_of(<const uint8_t *> PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))


@cython.no_gc
cdef class FrameMemory:
    """Writable memory for a frame, with any content; it is used again when nothing refers to it any more."""

    cdef Spare block
    cdef Py_ssize_t size

    def __cinit__(self, Py_ssize_t size):
        if size < 0:
            raise ValueError("memory cannot have a negative size")
        self.block = find_memory(size)
        self.size = size

    def __dealloc__(self):
        keep_memory(self.block.start, self.block.size)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.block.start, self.size, 0, flags)


def longest_bytes(items):
    """The size of the largest value, -1 for None; None if a value is neither bytes nor None."""
    cdef Py_ssize_t longest = -1
    cdef object item
    if not isinstance(items, (list, tuple)):
        raise TypeError("what is measured has to be a list or a tuple")
    for item in items:
        if item is not None:
            if not isinstance(item, bytes):
                return None
            longest = max(longest, PyBytes_GET_SIZE(item))
    return longest


def murmur2(data):
    """The hash of a key, as org.apache.kafka.common.utils.Utils.murmur2 returns it: signed, 32 bits."""
    return <int32_t> hash_of(data)


def partition_of_key(key, int64_t partition_count):
    """The partition that every client with Java's default partitioner chooses for the key."""
    if partition_count <= 0:
        raise ValueError("there have to be partitions")
    return (hash_of(key) & <uint32_t> INT32_MAX) % partition_count


def partitions_of_keys(keys, int64_t partition_count):
    """The same for many keys; -1 for those that are null."""
    cdef list partitions = []
    cdef object key
    if not isinstance(keys, (list, tuple)):
        raise TypeError("keys have to be a list or a tuple")
    if partition_count <= 0:
        raise ValueError("there have to be partitions")
    for key in keys:
        if key is None:
            partitions.append(-1)
        else:
            partitions.append((hash_of(key) & <uint32_t> INT32_MAX) % partition_count)
    return partitions


def whole_batches(buf):
    """Where the complete batches at the start of a buffer end, and where the last of them begins; -1: there is none."""
    cdef Py_buffer view
    cdef Py_ssize_t position = 0
    cdef Py_ssize_t last = -1
    cdef int64_t size
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    while True:
        size = whole_batch_bytes(<const uint8_t *> view.buf + position, view.len - position)
        if not size:
            break
        last = position
        position += size
    PyBuffer_Release(&view)
    return position, last
