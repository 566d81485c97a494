"""Two ordinary dropout networks, and one page about what they do not know.

Run it with ``python -m dubio_studies.demo``. Data flows one way: ``train`` makes the
networks, ``answers`` asks dubio about them, ``figures`` draws the answers and
``page`` puts the drawings into one HTML file.
"""
