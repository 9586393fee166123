"""Kafka in a web application as Spring Boot has it: a properties file, a template in a controller, a listener.

    pip install 'ottla[app]' fastapi
    ottla serve &
    uvicorn main:web
    curl http://127.0.0.1:8000/kafka/normal/hello

The Java that it stands for:

    @RestController
    public class KafkaProducer {
        @Autowired
        private KafkaTemplate<String, Object> kafkaTemplate;

        @GetMapping("/kafka/normal/{message}")
        public void sendMessage1(@PathVariable("message") String normalMessage) {
            kafkaTemplate.send("topic1", normalMessage);
        }
    }

    @Component
    public class KafkaConsumer {
        @KafkaListener(topics = {"topic1"})
        public void onMessage1(ConsumerRecord<?, ?> record) {
            System.out.println("received: " + record.topic() + "-" + record.partition() + "-" + record.value());
        }
    }
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI

from ottla.app import App, Record

app = App.from_properties(Path(__file__).with_name("application.properties"))
app.topic("topic1")

web = FastAPI(lifespan=app.lifespan)


@web.get("/kafka/normal/{normal_message}")
async def send_message_1(
    normal_message: str, template: Annotated[App, Depends(app.template)]
) -> None:
    """Send what stands in the path."""
    await template.send("topic1", normal_message)


@app.listener("topic1")
def on_message_1(record: Record) -> None:
    """Print topic, partition and value."""
    print(f"received: {record.topic}-{record.partition}-{record.value}", flush=True)
