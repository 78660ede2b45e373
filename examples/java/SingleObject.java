import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.SchemaNormalization;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;

/** Avro single-object encoding: C3 01, the CRC-64-AVRO of the writer's schema (little-endian), the value. */
final class SingleObject {
    private static final short MARKER = (short) 0xC301;
    private static final int HEADER_BYTES = 10;
    private final Map<Long, GenericDatumReader<GenericRecord>> readers = new HashMap<>();

    /** Knows the schemas in these files; each reads what was written with it. */
    SingleObject(Iterable<Path> files) throws IOException {
        for (Path file : files) {
            Schema schema = new Schema.Parser().parse(file.toFile());
            readers.put(SchemaNormalization.parsingFingerprint64(schema), new GenericDatumReader<>(schema));
        }
    }

    GenericRecord decode(byte[] value) throws IOException {
        ByteBuffer header = ByteBuffer.wrap(value);
        if (value.length < HEADER_BYTES || header.getShort() != MARKER) {
            throw new IOException("not in single-object encoding");
        }
        var reader = readers.get(header.order(ByteOrder.LITTLE_ENDIAN).getLong());
        if (reader == null) {
            throw new IOException("none of the schemas wrote this");
        }
        int length = value.length - HEADER_BYTES;
        return reader.read(null, DecoderFactory.get().binaryDecoder(value, HEADER_BYTES, length, null));
    }
}
