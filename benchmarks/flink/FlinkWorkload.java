import java.io.File;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.FilterFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.src.FileSourceSplit;
import org.apache.flink.connector.file.src.reader.BulkFormat;
import org.apache.flink.connector.file.src.util.RecordAndPosition;
import org.apache.flink.core.fs.Path;
import org.apache.flink.formats.parquet.ParquetColumnarRowInputFormat;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.windows.Window;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.util.Collector;

/**
 * Sum and count per key and window on Flink's own window operator, over the events of benchmarks/events.py.
 *
 * <p>One process, one local cluster per repeat. Arguments are {@code --name value}, see {@link #main}; prints a line of JSON per
 * repeat. Rows that come out are added up and thrown away.
 */
@SuppressWarnings({"unchecked", "rawtypes", "deprecation"})
public class FlinkWorkload {

    static final AtomicLong first = new AtomicLong(); // nanoTime of the first event
    static volatile long lateEvents; // event time from which on the last percent of the events lies
    static volatile long lastAdded; // nanoTime at which one of those was added to a window
    static final LongAdder rows = new LongAdder(), sums = new LongAdder(), counts = new LongAdder();

    static long mix(long x) {
        long z = x * 0x9E3779B97F4A7C15L;
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }

    /** Task s of p makes the events s, s + p, s + 2p, … as (key, time, value). */
    static class Events extends RichParallelSourceFunction<Tuple3<Long, Long, Long>> {
        final long n, keys, rate, disorder;
        volatile boolean running = true;

        Events(long n, long keys, long rate, long disorder) {
            this.n = n;
            this.keys = keys;
            this.rate = rate;
            this.disorder = disorder;
        }

        @Override
        public void run(SourceContext<Tuple3<Long, Long, Long>> context) {
            int step = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
            first.compareAndSet(0, System.nanoTime());
            for (long i = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask(); i < n && running; i += step) {
                long r1 = mix(2 * i + 1), r2 = mix(2 * i + 2);
                long time = 1_700_000_000_000L + i * 1000 / rate - (r2 & 0xFFFFFFL) % (disorder + 1);
                synchronized (context.getCheckpointLock()) {
                    context.collect(Tuple3.of((r1 >>> 1) % keys, time, (r2 >>> 33) % 1000));
                }
            }
        }

        @Override
        public void cancel() {
            running = false;
        }
    }

    /**
     * Task s of p reads the s-th of every p files, in the order of their names, by Flink's own columnar reader of Parquet.
     *
     * <p>A task has its files fixed, and takes them one after the other: FileSource gives them to whoever asks, and a task that is
     * a file ahead of the others would make their rows late.
     */
    static class Files extends RichParallelSourceFunction<Tuple3<Long, Long, Long>> {
        final String folder;
        volatile boolean running = true;

        Files(String folder) {
            this.folder = folder;
        }

        @Override
        public void run(SourceContext<Tuple3<Long, Long, Long>> context) throws Exception {
            File[] files = new File(folder).listFiles((in, name) -> name.startsWith("batch"));
            Arrays.sort(files);
            LogicalType[] types = {new BigIntType(false), new BigIntType(false), new BigIntType(false)}; // ts: microseconds
            ParquetColumnarRowInputFormat<FileSourceSplit> format =
                    new ParquetColumnarRowInputFormat<>(
                            new org.apache.hadoop.conf.Configuration(false),
                            RowType.of(types, new String[] {"key", "value", "ts"}), TypeInformation.of(RowData.class), 2048, true, true);
            int step = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
            first.compareAndSet(0, System.nanoTime());
            for (int at = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask(); at < files.length && running; at += step) {
                long length = files[at].length();
                FileSourceSplit split =
                        new FileSourceSplit(files[at].getName(), Path.fromLocalFile(files[at]), 0, length, files[at].lastModified(), length);
                try (BulkFormat.Reader<RowData> reader = format.createReader(new Configuration(), split)) {
                    for (BulkFormat.RecordIterator<RowData> batch; (batch = reader.readBatch()) != null; batch.releaseBatch()) {
                        for (RecordAndPosition<RowData> one; (one = batch.next()) != null; ) {
                            RowData row = one.getRecord();
                            synchronized (context.getCheckpointLock()) {
                                context.collect(Tuple3.of(row.getLong(0), row.getLong(2) / 1000, row.getLong(1)));
                            }
                        }
                    }
                }
            }
        }

        @Override
        public void cancel() {
            running = false;
        }
    }

    static void noteAdded(long time) {
        if (time >= lateEvents) lastAdded = System.nanoTime();
    }

    static class SumCount implements AggregateFunction<Tuple3<Long, Long, Long>, Tuple2<Long, Long>, Tuple2<Long, Long>> {
        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return Tuple2.of(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(Tuple3<Long, Long, Long> event, Tuple2<Long, Long> sum) {
            noteAdded(event.f1);
            sum.f0 += event.f2;
            sum.f1 += 1;
            return sum;
        }

        @Override
        public Tuple2<Long, Long> getResult(Tuple2<Long, Long> sum) {
            return sum;
        }

        @Override
        public Tuple2<Long, Long> merge(Tuple2<Long, Long> a, Tuple2<Long, Long> b) {
            a.f0 += b.f0;
            a.f1 += b.f1;
            return a;
        }
    }

    /** (key, sum, count) of one aggregated window. */
    static class Named extends ProcessWindowFunction<Tuple2<Long, Long>, Tuple3<Long, Long, Long>, Long, Window> {
        @Override
        public void process(Long key, Context context, Iterable<Tuple2<Long, Long>> sum, Collector<Tuple3<Long, Long, Long>> out) {
            Tuple2<Long, Long> one = sum.iterator().next();
            out.collect(Tuple3.of(key, one.f0, one.f1));
        }
    }

    /** The same from all elements of a window. */
    static class OverElements extends ProcessWindowFunction<Tuple3<Long, Long, Long>, Tuple3<Long, Long, Long>, Long, Window> {
        @Override
        public void process(
                Long key, Context context, Iterable<Tuple3<Long, Long, Long>> events, Collector<Tuple3<Long, Long, Long>> out) {
            long sum = 0, count = 0;
            for (Tuple3<Long, Long, Long> event : events) {
                sum += event.f2;
                count++;
            }
            out.collect(Tuple3.of(key, sum, count));
        }
    }

    static class AddUp implements FilterFunction<Tuple3<Long, Long, Long>> {
        @Override
        public boolean filter(Tuple3<Long, Long, Long> row) {
            rows.increment();
            sums.add(row.f1);
            counts.add(row.f2);
            return false;
        }
    }

    static DataStream<Tuple3<Long, Long, Long>> windowed(KeyedStream<Tuple3<Long, Long, Long>, Long> events, Map<String, String> o) {
        TypeInformation sum = Types.TUPLE(Types.LONG, Types.LONG), row = Types.TUPLE(Types.LONG, Types.LONG, Types.LONG);
        String kind = o.get("kind");
        if (kind.equals("count")) {
            return events.countWindow(Long.parseLong(o.get("size"))).aggregate(new SumCount(), (ProcessWindowFunction) new Named(), sum, sum, row);
        }
        Duration size = Duration.ofMillis(Long.parseLong(o.get("size")));
        Duration slide = Duration.ofMillis(Long.parseLong(o.getOrDefault("slide", o.get("size"))));
        WindowAssigner assigner;
        if (kind.equals("session")) assigner = EventTimeSessionWindows.withGap(size);
        else if (slide.equals(size)) assigner = TumblingEventTimeWindows.of(size);
        else assigner = SlidingEventTimeWindows.of(size, slide);
        if (kind.equals("elements")) return events.window(assigner).process((ProcessWindowFunction) new OverElements(), row);
        return events.window(assigner).aggregate(new SumCount(), (ProcessWindowFunction) new Named(), sum, sum, row);
    }

    static Configuration configuration(Map<String, String> o, int parallelism) {
        boolean rocksdb = o.get("backend").equals("rocksdb");
        Configuration configuration = new Configuration();
        configuration.setString("state.backend.type", o.get("backend"));
        configuration.setString("taskmanager.memory.managed.size", "1024mb");
        configuration.setString("taskmanager.memory.network.min", "128mb");
        configuration.setString("taskmanager.memory.network.max", "128mb");
        configuration.setString("taskmanager.numberOfTaskSlots", Integer.toString(parallelism));
        configuration.setString("rest.bind-port", "0");
        configuration.setString("restart-strategy.type", "none");
        if (rocksdb) {
            configuration.setString("execution.checkpointing.interval", "5s");
            configuration.setString("execution.checkpointing.incremental", "true");
            configuration.setString("execution.checkpointing.storage", "filesystem");
            configuration.setString("execution.checkpointing.dir", "file://" + o.get("checkpoints"));
        }
        return configuration;
    }

    /**
     * Runs it.
     *
     * <p>--kind aggregate|elements|session|count, --size (ms, or rows for count), --slide (ms), --backend hashmap|rocksdb, --n,
     * --keys, --rate, --disorder (ms), --parallelism, --repeats, --checkpoints (folder), --files (folder: read, not made)
     */
    public static void main(String[] arguments) throws Exception {
        Map<String, String> o = new HashMap<>();
        for (int at = 0; at < arguments.length; at += 2) o.put(arguments[at].substring(2), arguments[at + 1]);
        long n = Long.parseLong(o.get("n")), rate = Long.parseLong(o.get("rate")), disorder = Long.parseLong(o.get("disorder"));
        int parallelism = Integer.parseInt(o.get("parallelism"));
        lateEvents = 1_700_000_000_000L + (n - n / 100) * 1000 / rate;
        for (int repeat = 0; repeat < Integer.parseInt(o.get("repeats")); repeat++) {
            first.set(0);
            lastAdded = 0;
            rows.reset();
            sums.reset();
            counts.reset();
            StreamExecutionEnvironment environment =
                    StreamExecutionEnvironment.createLocalEnvironment(parallelism, configuration(o, parallelism));
            WatermarkStrategy<Tuple3<Long, Long, Long>> strategy =
                    WatermarkStrategy.<Tuple3<Long, Long, Long>>forBoundedOutOfOrderness(Duration.ofMillis(disorder))
                            .withTimestampAssigner((event, time) -> event.f1);
            RichParallelSourceFunction<Tuple3<Long, Long, Long>> source =
                    o.containsKey("files") ? new Files(o.get("files")) : new Events(n, Long.parseLong(o.get("keys")), rate, disorder);
            DataStream<Tuple3<Long, Long, Long>> events =
                    environment
                            .addSource(source, "events", Types.TUPLE(Types.LONG, Types.LONG, Types.LONG))
                            .assignTimestampsAndWatermarks(strategy);
            windowed(events.keyBy(event -> event.f0, Types.LONG), o).filter(new AddUp()).sinkTo(new DiscardingSink<>());
            environment.execute();
            double total = (System.nanoTime() - first.get()) / 1e9;
            double ingest = lastAdded == 0 ? total : (lastAdded - first.get()) / 1e9;
            System.out.printf(Locale.ROOT, "{\"total\": %.4f, \"ingest\": %.4f, \"rows\": %d, \"sum\": %d, \"count\": %d}%n",
                    total, ingest, rows.sum(), sums.sum(), counts.sum());
        }
        System.exit(0);
    }
}
